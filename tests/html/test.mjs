// usage: node test.mjs TIER PACKAGES PAGES [TEST…]: opens the pages that html_fixture wrote and compares them with what it
// wrote beside them. TIER: gate or full, which has all.

import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync, statSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';

const [tier, packages, pages, ...wanted] = process.argv.slice(2);
const {chromium} = createRequire(`${packages}/`)('playwright-core');
const truths = (name) => JSON.parse(readFileSync(`${pages}/${name}.json`, 'utf8'));
const root = process.getuid() === 0;
const browser = await chromium.launch({executablePath: '/usr/bin/chromium', args: root ? ['--no-sandbox'] : []});

// Opens a page; what it asks for or complains of is kept in `page.requests` and `page.complaints`.
async function open(name, options = {}) {
  const context = await browser.newContext({viewport: {width: 1200, height: 900}, colorScheme: 'light', ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  page.requests = [];
  page.complaints = [];
  page.on('request', (request) => page.requests.push(request.url()));
  page.on('console', (message) => page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('dialog', (dialog) => { page.complaints.push('a dialog'); dialog.dismiss(); });
  await page.goto(`file://${pages}/${name}.html`);
  await page.waitForTimeout(50);
  return page;
}

// Points at a moment of the first chart, as a mouse does.
async function hover(page, s, chart = 0) {
  await page.locator('.u-over').nth(chart).scrollIntoViewIfNeeded();
  const [x, y] = await page.evaluate(([at, i]) => {
    const u = timeline.charts[i], {left, top, height} = u.over.getBoundingClientRect();
    return [left + u.valToPos(at, 'x'), top + height / 2];
  }, [s, chart]);
  await page.mouse.move(x, y);
  await page.waitForTimeout(30);
}

const readouts = (page) => page.$$eval('figure', (figures) => figures.map((figure) => Object.fromEntries(
    [...figure.querySelectorAll('.readout li')].map((item) => {
      const value = item.querySelector('b').textContent;
      return [item.textContent.slice(0, -value.length).trim(), value];
    }))));

const texts = (page, selector) => page.$$eval(selector, (all) => all.map((each) => each.textContent));

const LABELS = {total: ['usage', 'resident'], pinned: ['not reclaimable'], limit: ['limit', 'limit (above the chart)']};

const tests = {
  async pages_open_without_a_complaint_or_a_request() {
    for (const name of ['typical', 'hostile', 'large', 'bare']) {
      const page = await open(name);
      await page.mouse.wheel(0, 4000);
      await page.waitForTimeout(100);
      assert.deepEqual(page.complaints, [], name);
      assert.deepEqual(page.requests, [`file://${pages}/${name}.html`]);
      assert.equal(await page.locator('h1').textContent() !== '', true, name);
    }
  },

  async charts_hold_the_values() {
    const truth = truths('typical');
    const page = await open('typical');
    const drawn = await page.evaluate(() => timeline.charts.filter((u) => u.curve).map((u) => ({
      name: u.curve.name, labels: u.series.map((series) => series.label), data: u.data.map((values) => [...values])})));
    assert.deepEqual(drawn.map((chart) => chart.name), truth.curves.map((curve) => curve.name));
    for (const [i, chart] of drawn.entries()) {
      const curve = truth.curves[i];
      assert.deepEqual(chart.data[0].map((s) => Math.round(s * 1000)), truth.at.map((s) => Math.round(s * 1000)));
      // The kinds are drawn from the top of the stack down; from the bottom up they add up.
      const stack = chart.labels.map((label, index) => [label, chart.data[index]]).filter(([label]) => label in curve.kinds).reverse();
      assert.ok(stack.length >= 3, `${chart.name}: ${chart.labels}`);
      const sum = truth.at.map(() => 0);
      for (const [label, values] of stack) {
        const expected = curve.kinds[label].map((value, at) => (value === null ? null : sum[at] += value));
        assert.deepEqual(values, expected, `${chart.name} ${label}`);
      }
      for (const label of ['total', 'pinned', 'limit']) {
        const index = chart.labels.indexOf(label);
        if (index >= 0) assert.deepEqual(chart.data[index], curve[label], `${chart.name} ${label}`);
        else assert.ok(curve[label].every((value) => value === null), `${chart.name} draws no ${label}`);
      }
    }
    const told = await page.evaluate(() => timeline.charts.find((u) => u.forecasts).data.map((values) => [...values]));
    const [at, high, low, eta] = told.map((values) => values.slice(0, truth.forecasts.length));
    assert.deepEqual([at, eta, low], [0, 1, 2].map((column) => truth.forecasts.map((each) => each[column])));
    truth.forecasts.forEach((each, i) => { if (each[3] !== null) assert.equal(high[i], each[3]); });
  },

  async what_is_drawn_is_at_the_height_of_its_value() {
    const page = await open('typical');
    const colors = await page.evaluate(() => {
      const u = timeline.charts[0], index = 200, ratio = uPlot.pxRatio;
      const x = Math.round(u.valToPos(u.data[0][index], 'x', true));
      const pixel = (bytes) => [...u.ctx.getImageData(x, Math.round(u.valToPos(bytes, 'y', true)), 1, 1).data].slice(0, 3);
      const [anon, file] = ['anon', 'file'].map((kind) => {
        const i = u.series.findIndex((series) => series.label === kind);
        const below = u.series.slice(i + 1).findIndex((series) => KINDS.includes(series.label));
        return [u.data[i][index], below < 0 ? 0 : u.data[i + 1 + below][index]];
      });
      const named = (name) => {
        const probe = document.createElement('canvas').getContext('2d');
        probe.fillStyle = color(name);
        probe.fillRect(0, 0, 1, 1);
        return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
      };
      return {anon: pixel((anon[0] + anon[1]) / 2), file: pixel((file[0] + file[1]) / 2), above: pixel(file[0] * 1.25),
              wanted: {anon: named('anon'), file: named('file'), above: named('surface')}, ratio};
    });
    const near = (a, b) => a.every((value, i) => Math.abs(value - b[i]) < 12);
    assert.ok(near(colors.anon, colors.wanted.anon), JSON.stringify(colors));
    assert.ok(near(colors.file, colors.wanted.file), JSON.stringify(colors));
    assert.ok(!near(colors.above, colors.wanted.anon) && !near(colors.above, colors.wanted.file), JSON.stringify(colors));
  },

  async hovering_one_chart_shows_the_values_of_that_moment_in_all() {
    const truth = truths('typical');
    const page = await open('typical');
    const utc = truth.at.map((s) => new Date(1795226645123 + Math.round(s * 1000)).toISOString().slice(11, 23));
    for (const [chart, wanted] of [[0, 40], [0, 485], [2, 700], [3, 784]]) {
      await hover(page, truth.at[wanted], chart);
      // A pixel is about a second: the sample beside it may be the nearer one.
      const moment = await page.locator('#memory .moment').textContent();
      const index = utc.findIndex((time) => moment.includes(`${time} UTC`));
      assert.ok(Math.abs(index - wanted) <= 1, `${moment}: ${utc[wanted]}`);
      const shown = await readouts(page);
      shown.splice(1, 1);  // the forecasts' chart
      truth.curves.forEach((curve, i) => {
        for (const [kind, value] of Object.entries(curve.texts[index]))
          for (const name of LABELS[kind] ?? [kind])
            if (name in shown[i]) assert.equal(shown[i][name], value, `${curve.name} ${name} at ${utc[index]}`);
        const names = Object.keys(shown[i]).length;
        assert.ok(names >= 4, `${curve.name} shows ${Object.keys(shown[i])}`);
      });
    }
  },

  async hovering_shows_what_had_been_told_by_then_and_not_what_was_told_next() {
    const page = await open('typical');
    await hover(page, -133);
    assert.match((await readouts(page))[1].predicted, /^2 min 30 s before the kill: in 2 min /);
    await hover(page, -700);
    assert.equal((await readouts(page))[1].predicted, 'nothing yet');
  },

  async without_a_pointer_the_charts_show_the_kill() {
    const truth = truths('typical');
    const page = await open('typical');
    assert.match(await page.locator('#memory .moment').textContent(), /^at the kill 02:04:05\.123 UTC/);
    await hover(page, -300);
    assert.match(await page.locator('#memory .moment').textContent(), /^5 min 00 s before the kill/);
    await page.mouse.move(2, 2);
    await page.waitForTimeout(30);
    const index = truth.at.indexOf(0);
    assert.equal((await readouts(page))[0].usage, truth.curves[0].texts[index].total);
  },

  async an_event_of_the_list_is_found_on_the_charts() {
    const page = await open('typical');
    await page.locator('#events tr', {hasText: 'level shifted'}).hover();
    assert.match(await page.locator('#memory .moment').textContent(), /^(7 min 00|6 min 59|7 min 01) s before the kill.*step: the level shifted/);
  },

  async the_view_narrows_to_the_last_minute_on_every_chart() {
    const page = await open('typical');
    await page.getByRole('button', {name: '1 min', exact: true}).click();
    const ranges = () => page.evaluate(() => timeline.charts.map((u) => Math.round(u.scales.x.min)));
    assert.deepEqual(await ranges(), [-60, -60, -60, -60, -60]);
    await page.getByRole('button', {name: 'All', exact: true}).click();
    assert.ok((await ranges()).every((from) => from < -780));
  },

  async the_button_of_the_range_that_is_shown_is_pressed() {
    const page = await open('typical');
    const pressed = () => page.$$eval('.zoom button', (all) => all.filter((each) => each.getAttribute('aria-pressed') === 'true').map((each) => each.textContent));
    assert.deepEqual(await pressed(), ['All']);
    await page.getByRole('button', {name: '1 min', exact: true}).click();
    await page.waitForTimeout(50);
    assert.deepEqual(await pressed(), ['1 min']);
    await hover(page, -40);
    await page.mouse.down();
    const box = await page.locator('.u-over').first().boundingBox();
    await page.mouse.move(box.x + box.width * 0.9, box.y + 40, {steps: 4});
    await page.mouse.up();
    await page.waitForTimeout(50);
    assert.deepEqual(await pressed(), [], 'a range that was dragged is of no button');
    await page.getByRole('button', {name: 'All', exact: true}).click();
    await page.waitForTimeout(50);
    assert.deepEqual(await pressed(), ['All']);
  },

  async the_headline_the_curve_and_the_findings_come_first_and_in_this_order() {
    const page = await open('typical');
    const tops = await page.evaluate(() => ['h1', '#memory .u-over', '#findings'].map(
        (selector) => document.querySelector(selector).getBoundingClientRect().top + scrollY));
    assert.ok(tops[0] < tops[1] && tops[1] < tops[2], String(tops));
    assert.ok(tops[1] < 400, `the curve begins at ${tops[1]} px`);
  },

  async every_chart_has_a_sentence_that_says_what_it_does() {
    const page = await open('typical');
    const labels = await page.$$eval('.plot', (all) => all.map((each) => [each.getAttribute('role'), each.getAttribute('aria-label')]));
    const shown = await texts(page, 'figcaption .trend');
    assert.equal(labels.length, 5);
    assert.equal(shown.length, 5);
    labels.forEach(([role, label], i) => {
      assert.equal(role, 'img');
      assert.ok(label.endsWith(shown[i]), `${label}: ${shown[i]}`);
    });
    assert.match(labels[0][1], /^Memory of \/train\/job-4711: rose from .* to 16\.0 GiB in 13 min 00 s, \+.*\/s; the limit is 16\.0 GiB$/);
    assert.match(labels[1][1], /^When the limit was predicted to be hit: first 9 min 30 s before the kill: in .*; last .*; \d+ of 19 ranges held the kill$/);
  },

  async dragging_narrows_every_chart_and_a_double_click_widens_them() {
    const page = await open('typical');
    await hover(page, -400);
    await page.mouse.down();
    const box = await page.locator('.u-over').first().boundingBox();
    await page.mouse.move(box.x + box.width * 0.8, box.y + 40, {steps: 4});
    await page.mouse.up();
    const ranges = () => page.evaluate(() => timeline.charts.map((u) => Math.round(u.scales.x.min)));
    const narrow = await ranges();
    assert.ok(narrow.every((from) => Math.abs(from + 400) <= 2), String(narrow));
    await page.mouse.dblclick(box.x + box.width * 0.5, box.y + 40);
    assert.ok((await ranges()).every((from) => from < -780));
  },

  async the_process_table_sorts_both_ways_with_the_unknown_last() {
    const page = await open('typical');
    const names = async () => (await texts(page, '#processes td:first-child .name')).map((name) => name.split('[')[0] + name.slice(-3));
    const head = (name) => page.locator('#processes th', {has: page.getByRole('button', {name, exact: true})});
    assert.deepEqual(await names(), ['python3.py', 'python3.py', 'nvidia-smimon', 'tensorboarduns']);
    await head('Resident').getByRole('button').click();
    assert.equal(await head('Resident').getAttribute('aria-sort'), 'descending');
    assert.deepEqual(await texts(page, '#processes td:nth-child(2)'), ['11.0 GiB', '4.02 GiB', '758 MiB', '31.7 MiB']);
    await head('Resident').getByRole('button').click();
    assert.equal(await head('Resident').getAttribute('aria-sort'), 'ascending');
    assert.deepEqual(await texts(page, '#processes td:nth-child(2)'), ['31.7 MiB', '758 MiB', '4.02 GiB', '11.0 GiB']);
    for (let click = 0; click < 2; ++click) {
      await head('swap').getByRole('button').click();
      assert.equal((await texts(page, '#processes td:nth-child(6)')).at(-1), '–');
    }
    await head('Process').getByRole('button').click();
    assert.equal((await names())[0], 'nvidia-smimon');
    assert.equal(await head('Resident').getAttribute('aria-sort'), 'none');
  },

  async the_theme_follows_the_system_and_its_button() {
    const shade = (page) => page.evaluate(() => {
      const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return r + g + b > 384 ? 'light' : 'dark';
    });
    const anon = (page) => page.evaluate(() => {
      const u = timeline.charts[0];
      return String(u.ctx.getImageData(u.bbox.left + 40, u.bbox.top + u.bbox.height - 12, 1, 1).data);
    });
    const page = await open('typical');
    assert.equal(await shade(page), 'light');
    const bright = await anon(page);
    await page.getByRole('button', {name: 'Dark'}).click();
    await page.waitForTimeout(50);
    assert.equal(await shade(page), 'dark');
    assert.notEqual(await anon(page), bright, 'the charts are drawn anew');
    await page.getByRole('button', {name: 'Light'}).click();
    await page.waitForTimeout(50);
    assert.equal(await shade(page), 'light');
    assert.equal(await anon(page), bright);
    assert.equal(await shade(await open('typical', {colorScheme: 'dark'})), 'dark');
  },

  async names_of_strangers_stay_text() {
    const truth = truths('hostile');
    const page = await open('hostile');
    assert.equal(await page.evaluate(() => typeof window.owned), 'undefined');
    const made = await page.evaluate(() => ({
      scripts: document.scripts.length,
      foreign: document.querySelectorAll('img, iframe, object, embed, link, base, form, main script, main style, main b b, main a').length,
      handlers: [...document.querySelectorAll('*')].filter((each) => [...each.attributes].some(({name}) => name.startsWith('on'))).length}));
    assert.deepEqual(made, {scripts: 2, foreign: 0, handlers: 0});
    assert.equal(await page.locator('h1').textContent(), truth.headline);
    const found = (await texts(page, '#findings .findings > li > p')).slice(3);
    assert.equal(found.length, truth.hostile.length);
    truth.hostile.forEach((name, i) => { if (name.length < 400) assert.equal(found[i], name); });
    assert.equal(await page.locator('#processes tbody tr').count(), truth.hostile.length);
    assert.ok((await texts(page, '#processes .name'))[0].startsWith('<script>window.owned=1</script>['));
    // Marks that turn the direction are shown as what they are, where oomcast made the text from bytes.
    const made_here = (await texts(page, '#processes .name, #chain .name')).join('');
    assert.doesNotMatch(made_here, /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/);
    assert.equal(await page.evaluate(() => ({}).polluted), undefined);
  },

  async the_policy_lets_nothing_else_run() {
    const page = await open('typical');
    const ran = await page.evaluate(async () => {
      const script = document.createElement('script');
      let trusted = false;
      try {
        script.text = 'window.ran = true';
        document.body.append(script);
        trusted = true;
      } catch { /* refused as it should be */ }
      let markup = false;
      try {
        document.body.insertAdjacentHTML('beforeend', '<p>');
        markup = true;
      } catch { /* refused */ }
      let loaded = false;
      try {
        await fetch('https://localhost:9/');
        loaded = true;
      } catch { /* refused */ }
      return [window.ran === true, trusted, markup, loaded];
    });
    assert.deepEqual(ran, [false, false, false, false]);
    assert.deepEqual(page.requests, [`file://${pages}/typical.html`]);
  },

  async fifty_curves_of_thirty_minutes_stay_small_and_are_all_there() {
    assert.ok(statSync(`${pages}/large.html`).size < 3 << 20);
    const truth = truths('large');
    const page = await open('large');
    await page.getByRole('button', {name: 'Show 43 more'}).click();
    await page.waitForTimeout(300);
    const drawn = await page.evaluate(() => timeline.charts.map((u) => ({
      name: u.curve.name, at: [...u.data[0]], total: [...u.data[u.series.findIndex((series) => series.label === 'total')]]})));
    assert.equal(drawn.length, 50);
    const moments = new Map(truth.at.map((s, i) => [s, i]));
    drawn.forEach(({name, at, total}, i) => {
      assert.equal(name, truth.curves[i].name);
      assert.deepEqual(total, at.map((s) => truth.curves[i].total[moments.get(s)]), name);
    });
    assert.deepEqual(page.complaints, []);
  },

  async the_kinds_at_the_kill_and_the_chain_of_limits_are_told() {
    const page = await open('typical');
    assert.deepEqual(await texts(page, '#kinds tr'), [
      ' anon14.5 GiB91 %', ' unattributed748 MiB4.6 %', ' shmem430 MiB2.6 %', ' file205 MiB1.2 %', ' kernel133 MiB0.8 %']);
    assert.match(await page.locator('#kinds .note').textContent(), /^\/train\/job-4711, as the kernel reported it at the kill\. Of kernel, 20\.5 MiB is slab\./);
    assert.deepEqual(await texts(page, '#chain .of'), ['16.0 GiB of 16.0 GiB 100 %', '21.4 GiB of 48.0 GiB 45 %', '38.9 GiB, no limit ']);
    assert.equal(await page.locator('#chain .met').count(), 1);
    assert.match(await page.locator('#checks').textContent(), /3 sources agree.*No record was lost/);
  },

  async what_the_machine_had_left_is_told() {
    const page = await open('machine');
    assert.deepEqual(page.complaints, []);
    const facts = await texts(page, '#machine .facts div');
    assert.deepEqual(facts, ['Memory300 MiB free of 64.0 GiB', 'Swapnone', 'NUMA nodes allowed0-1']);
    assert.deepEqual(await texts(page, '#machine td'), ['DMA32', '0', '240 MiB', '3.00 MiB', '6.00 MiB', '9.00 MiB', '2.83 GiB',
                                                       'Normal', '1', '60.0 MiB', '63.0 MiB', '124 MiB', '185 MiB', '–', 'dentry', '880 MiB', '900 MiB']);
    assert.equal(await (await open('typical')).locator('#machine').count(), 0);
  },

  async an_episode_without_samples_says_so() {
    const page = await open('bare');
    assert.match(await page.locator('#memory').textContent(), /No samples/);
    assert.match(await page.locator('#checks').textContent(), /No source counted.*Whether records were lost is not known/);
    assert.match(await page.locator('#facts').textContent(), /Predicted.*not known: oomcast did not run/);
  },

  async times_are_told_in_utc_and_in_the_machines_own_zone() {
    const page = await open('bare', {timezoneId: 'America/New_York'});
    assert.deepEqual((await texts(page, '#facts dd')).slice(0, 2), ['1970-01-01 00:00:00 UTC', '1970-01-01 05:30:00 IST']);
    assert.equal(await page.evaluate(() => clock.time(-0.5)), '23:59:59.500 UTC · 05:29:59.500 IST');
  },

  async a_real_kill_says_what_its_other_formats_say() {
    if (process.getuid() !== 0) return 'no kill without root';
    assert.ok(existsSync(`${pages}/kill.html`), existsSync(`${pages}/kill.log`) ? readFileSync(`${pages}/kill.log`, 'utf8') : 'nothing was made');
    const truth = JSON.parse(readFileSync(`${pages}/kill.json`, 'utf8'));
    const page = await open('kill');
    assert.deepEqual(page.complaints, []);
    assert.deepEqual(page.requests, [`file://${pages}/kill.html`]);
    assert.equal(await page.locator('h1').textContent(), truth.headline);
    assert.deepEqual(await texts(page, '#findings .findings > li > p'), truth.findings.map(({text}) => text));
    assert.deepEqual(await texts(page, '#findings .findings ul li'), truth.findings.flatMap(({because}) => because));
    const at_kill = await page.evaluate(() => {
      const u = timeline.charts[0];
      return {at: u.data[0][timeline.rest], total: u.data[u.series.findIndex(({label}) => label === 'total')][timeline.rest],
              anon: u.data[u.series.findIndex(({label}) => label === 'anon')][timeline.rest]};
    });
    assert.deepEqual(at_kill, {at: 0, total: truth.memory.usage_bytes, anon: truth.memory.anon_bytes});
    assert.match((await readouts(page))[0].limit, /^96\.0 MiB$/);
    const victim = page.locator('#processes tr.victim');
    assert.equal(await victim.count(), 1);
    assert.match(await victim.textContent(), new RegExp(`^grow\\[${truth.oom.victims[0].pid}\\].*killed`));
  },

  async a_flame_graph_shows_each_name_as_text_and_asks_for_nothing() {
    const {names} = truths('flames');
    for (const name of ['flames', 'difference']) {
      const page = await open(name);
      assert.deepEqual(page.complaints, [], name);
      assert.deepEqual(page.requests, [`file://${pages}/${name}.html`]);
      const shown = await texts(page, '#lines td:first-child .name');
      const told = name === 'flames' ? names : names.slice(0, 1);  // of a difference, what differs
      for (const each of told.filter((text) => text.length < 100)) assert.ok(shown.includes(each), `${name}: ${each}`);
      assert.equal(await page.locator('#flames rect').count(), names.length + 2, 'all, the process, and each');
      const titles = await texts(page, '#flames title');
      for (const each of names.filter((text) => text.length < 100)) assert.ok(titles.some((title) => title.startsWith(each)), each);
      await page.screenshot({path: `${pages}/${name}.png`, fullPage: true});
    }
  },

  async a_flame_graph_is_searched_and_zoomed_and_follows_the_theme() {
    const page = await open('flames');
    await page.locator('#stacks input').fill('PYTHON3[');
    await page.waitForTimeout(50);
    assert.match(await page.locator('.details').textContent(), /^1 found, /);
    const fill = () => page.locator('#flames rect').first().getAttribute('fill');
    const light = await fill();
    await page.locator('button.theme').click();
    assert.notEqual(await fill(), light);
    await page.locator('#flames g.frame').nth(3).click();
    await page.waitForTimeout(50);
    assert.ok(await page.locator('#flames rect').count() <= 4);
    await page.getByRole('button', {name: 'All', exact: true}).click();
    await page.waitForTimeout(50);
    assert.ok(await page.locator('#flames rect').count() > 4);
  },

  async it_fits_a_phone() {
    for (const name of ['typical', 'hostile']) {
      const page = await open(name, {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, hasTouch: true, isMobile: true});
      const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
      assert.equal(width, 390, name);
      await page.screenshot({path: `${pages}/${name}-phone.png`, fullPage: true});
    }
  },

  async it_prints_light_and_comes_back_dark() {
    const page = await open('typical', {colorScheme: 'dark'});
    await page.evaluate(() => {
      window.printed = [];
      addEventListener('beforeprint', () => window.printed.push(isDark(), ...timeline.charts.map(({width}) => width)));
    });
    const pdf = await page.pdf({format: 'A4', preferCSSPageSize: true});
    writeFileSync(`${pages}/typical.pdf`, pdf);
    const widths = () => page.evaluate(() => timeline.charts.map(({width}) => width));
    assert.deepEqual(await page.evaluate(() => window.printed), [false, 660, 660, 660, 660, 660]);
    assert.deepEqual([await page.evaluate(() => isDark()), Math.min(...await widths()) > 900], [true, true]);
    assert.ok(pdf.length > 20000);
    execFileSync('pdftoppm', ['-r', '80', '-png', `${pages}/typical.pdf`, `${pages}/typical-print`]);
  },

  async it_says_what_it_needs_where_scripts_are_off() {
    const page = await open('typical', {javaScriptEnabled: false});
    assert.match(await page.locator('body').textContent(), /needs JavaScript/);
    assert.deepEqual(page.complaints, []);
  },

  async screenshots_are_taken() {
    for (const colorScheme of ['light', 'dark']) {
      const page = await open('typical', {colorScheme});
      await page.screenshot({path: `${pages}/typical-${colorScheme}.png`, fullPage: true});
      await hover(page, -240);
      await page.screenshot({path: `${pages}/typical-${colorScheme}-hover.png`});
      await (await open('machine', {colorScheme})).screenshot({path: `${pages}/machine-${colorScheme}.png`, fullPage: true});
      await (await open('hostile', {colorScheme})).screenshot({path: `${pages}/hostile-${colorScheme}.png`, fullPage: true});
    }
  },
};

const gate = [tests.pages_open_without_a_complaint_or_a_request, tests.charts_hold_the_values,
              tests.what_is_drawn_is_at_the_height_of_its_value, tests.names_of_strangers_stay_text,
              tests.the_policy_lets_nothing_else_run, tests.the_button_of_the_range_that_is_shown_is_pressed,
              tests.the_headline_the_curve_and_the_findings_come_first_and_in_this_order,
              tests.every_chart_has_a_sentence_that_says_what_it_does, tests.a_real_kill_says_what_its_other_formats_say,
              tests.a_flame_graph_shows_each_name_as_text_and_asks_for_nothing];
const count = {PASS: 0, FAIL: 0, SKIP: 0};
for (const [name, test] of Object.entries(tests)) {
  if (wanted.length ? !wanted.includes(name) : tier === 'gate' && !gate.includes(test)) continue;
  let result = 'PASS', why = '';
  try {
    const reason = await test();
    if (reason) result = 'SKIP', why = `: ${reason}`;
  } catch (error) {
    result = 'FAIL';
    why = `: ${String(error.message).split('\n').filter((line) => line.trim()).slice(0, 6).join(' | ').slice(0, 600)}`;
  }
  for (const context of browser.contexts()) await context.close();
  ++count[result];
  console.log(`${result} html/${name}${why}`);
}
await browser.close();
console.log(`END ${count.PASS} ${count.FAIL} ${count.SKIP}`);
process.exit(count.FAIL ? 1 : 0);
