// The post-mortem, from top to bottom.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const clock = new Clock(data.time);
const timeline = new Timeline(data.timeline, clock);

const SCOPES = {
  memcg: 'a memory cgroup', global: 'the whole machine', cpuset: 'the NUMA nodes of a cpuset',
  mempolicy: 'the NUMA nodes of a memory policy', sysrq: 'by hand (sysrq)'};

function section(id, title, ...content) {
  return attributes(element('section', element('h2', title), ...content), {id});
}

function fact(name, ...value) {
  return element('div', element('dt', name), value.filter((line) => line !== null).map((line, i) => element(i === 0 ? 'dd' : 'dd.more', line)));
}

function header() {
  return element('header', element('div.bar', element('span.brand', 'oomcast'), element('span.kind', 'post-mortem'), themeButton()),
                 element('h1', data.headline));
}

function facts() {
  const local = clock.local ? `${clock.text(0, 0, 19, clock.offset_s)} ${clock.zone}` : null;
  const facts = [data.undated === null ? fact('Killed at', `${clock.text(0, 0, 19, 0)} UTC`, local) : fact('Killed', data.undated)];
  if (data.limit_cgroup !== null) facts.push(fact('Limit of', element('span.name', data.limit_cgroup)));
  if (data.limit !== null) facts.push(fact('Limit', size(data.limit), data.usage === null ? null : `in use: ${size(data.usage)}`));
  if (data.scope !== null) facts.push(fact('What ran out', SCOPES[data.scope]));
  facts.push(fact('Killed', `${data.victims} ${data.victims === 1 ? 'process' : 'processes'}`, data.group_kill ? 'the whole group' : null));
  const none = data.live ? 'not predicted' : 'not known: oomcast did not run';
  facts.push(fact('Predicted', data.foretold_s === null ? none : `${duration(data.foretold_s)} ahead`));
  if (data.freed_s !== null) facts.push(fact('Memory was back', `${duration(data.freed_s)} later`));
  return section('facts', 'The kill', element('dl.facts', facts));
}

function findings(list) {
  return element('ol.findings', list.map(({text, evidence}) => element(
      'li', element('p', text), evidence.length ? element('ul', evidence.map((line) => element('li', line))) : null)));
}

function where() {
  const line = attributes(element('p.moment'), {'aria-live': 'off'});
  const near = element('span.near');
  const show = (s) => {
    const moment = s === null ? 0 : s;
    const [min, max] = timeline.range;
    const close = s === null ? [] : timeline.events.filter((event) => Math.abs(event.at - s) <= (max - min) / 150);
    near.textContent = close.slice(0, 2).map((event) => event.text).join(' · ');
    line.replaceChildren(element('b', fromKill(moment)), ` ${clock.time(moment)} `, near);
  };
  timeline.listeners.push(show);
  show(null);
  return line;
}

function zoomButtons() {
  const span = -timeline.range[0];
  const choices = [10, 30, 60, 120, 300, 600, 1800, 3600].filter((seconds) => seconds < span * 0.7).slice(-3).reverse();
  const button = (text, seconds) => {
    const made = attributes(element('button', text), {type: 'button', 'aria-pressed': String(seconds === undefined)});
    made.addEventListener('click', () => timeline.zoom(seconds));
    // Dragging may have chosen a range that no button has.
    timeline.rangeListeners.push((min, max) => made.setAttribute('aria-pressed', String(timeline.shows(seconds, min, max))));
    return made;
  };
  return attributes(element('div.zoom', button('All', undefined), choices.map((seconds) => button(duration(seconds).replace(/ 00 \w+$/, ''), seconds))),
                    {role: 'group', 'aria-label': 'What is shown before the kill'});
}

const AT_FIRST = 6;

// Shown at once, below the headline: the curve of the cgroup whose limit was met.
function mainChart() {
  if (timeline.empty()) return section('memory', 'Memory before the kill', element('p.none', 'No samples of it were kept.'));
  const main = timeline.curves[0];
  const {figure, draw} = memoryChart(timeline, main, {height: 300, wedge: main.limit_owner});
  const made = section('memory', 'Memory before the kill', element('div.pointer', where(), zoomButtons()), element('div.charts', figure));
  made.draw = draw;
  return made;
}

function otherCharts() {
  if (timeline.empty()) return null;
  const others = timeline.curves.slice(1);
  const first = timeline.forecasts.length ? [deadlineChart(timeline, 150)] : [];
  first.push(...others.slice(0, AT_FIRST).map((curve) => memoryChart(timeline, curve, {height: 150})));
  const rest = others.slice(AT_FIRST);
  const box = element('div.charts', first.map(({figure}) => figure));
  const notes = [];
  if (data.timeline.moments_left_out)
    notes.push(`${data.timeline.moments_left_out} moments are left out: of the limit's own cgroup no peak is among them.`);
  if (data.timeline.every > 1) notes.push(`One of ${data.timeline.every} samples is drawn, of each the highest.`);
  if (data.timeline.curves_left_out) notes.push(`${data.timeline.curves_left_out} smaller curves are left out.`);
  if (first.length === 0 && notes.length === 0) return null;
  const made = section('curves', 'Deadlines, and the memory of others', first.length ? element('div.pointer', where()) : null,
                       first.length ? box : null, notes.length ? element('p.note', notes.join(' ')) : null);
  made.draw = () => first.forEach(({draw}) => draw());
  if (rest.length) {
    const more = attributes(element('button.show-more', `Show ${rest.length} more`), {type: 'button'});
    more.addEventListener('click', () => {
      const added = rest.map((curve) => memoryChart(timeline, curve, {height: 150}));
      box.append(...added.map(({figure}) => figure));
      added.forEach(({draw}) => draw());
      more.remove();
    });
    made.append(more);
  }
  return made;
}

function events() {
  if (timeline.events.length === 0) return null;
  const rows = timeline.events.map((event) => {
    const row = element('tr', element('td.number', axisTime(Math.round(event.at * 10) / 10)), element('td.time', data.undated === null ? clock.time(event.at) : ''),
                        element('td', element(`span.badge.${event.kind.replace(' ', '-')}`, event.kind)), element('td', event.text));
    row.addEventListener('mouseenter', () => timeline.pointAt(event.at));
    row.addEventListener('mouseleave', () => timeline.pointAt(null));
    return row;
  });
  const left = data.timeline.events_left_out;
  return section('events', 'Events', element('div.scroll.tall', element('table', element('tbody', rows))),
                 left ? element('p.note', `${left} events further from the kill are left out.`) : null);
}

function processes() {
  if (data.processes.length === 0) return null;
  const badges = (p) => [p.victim && element('span.badge.kill', 'killed'), p.culprit && element('span.badge.culprit', 'grew most'),
                         p.trigger && element('span.badge', 'asked'), p.ended_before && element('span.badge', 'ended before')].filter(Boolean);
  const named = (p) => {
    const name = element('span.name', p.name);
    if (p.cmdline) name.title = p.cmdline;
    return element('div', name, ' ', badges(p));
  };
  const bytes = (key, title) => ({title, number: true, value: (p) => p[key], cell: (p) => size(p[key])});
  const columns = [
    {title: 'Process', value: (p) => p.name, cell: named},
    {...bytes('rss', 'Resident')}, bytes('anon', 'anon'), bytes('file', 'file'), bytes('shmem', 'shmem'), bytes('swap', 'swap'),
    {title: 'Resident grew', number: true, value: (p) => p.grew, cell: (p) => (p.grew > 0 ? '+' : '') + size(p.grew)},
    {title: 'Growth', number: true, value: (p) => p.growth, cell: (p) => rate(p.growth)},
    {title: 'oom_score_adj', number: true, value: (p) => p.oom_score_adj,
     cell: (p) => (p.oom_score_adj === null ? UNKNOWN : minus(String(p.oom_score_adj)))},
  ].filter((column) => !column.number || data.processes.some((p) => column.value(p) !== null));
  const rows = data.processes.map((p) => ({...p, kind: p.victim ? 'victim' : null}));
  return section('processes', 'Processes', sortableTable(columns, rows),
                 data.processes_left_out ? element('p.note', `${data.processes_left_out} more are left out.`) : null, taskSums());
}

function bar(parts, whole) {
  return element('div.level', parts.map(({mark, value}) => {
    const part = element(`span.${mark}`);
    part.style.width = `${Math.min(100, Math.max(0, value / whole * 100))}%`;
    return part;
  }));
}

function kinds() {
  if (data.memory === null) return null;
  const held = data.memory.kinds.map(([name, value]) => ({name, mark: mark(name), value}))
                   .filter(({value}) => value > 0).sort((a, b) => b.value - a.value);
  if (held.length === 0) return null;
  const sum = held.reduce((all, {value}) => all + value, 0);
  const percent = (value) => {
    const of = value / sum * 100;
    return of < 0.05 ? '< 0.1 %' : `${of.toFixed(of < 10 ? 1 : 0)} %`;
  };
  const rows = held.map(({name, mark, value}) => element('tr', element('td', element(`span.swatch.${mark}`), ` ${name}`),
                                                         element('td.number', size(value)), element('td.number', percent(value))));
  const {exact, age_s, slab} = data.memory;
  return section('kinds', 'Memory by kind', bar(held, sum), element('table.narrow', element('tbody', rows)),
                 element('p.note', element('span.name', data.limit_cgroup ?? 'the machine'),
                         exact ? ', as the kernel reported it at the kill.' : `, as sampled ${fromKill(-age_s)}.`,
                         slab === null ? null : ` Of kernel, ${size(slab)} is slab.`,
                         held.some(({name}) => name === 'swap') ? ' Swap is not part of the usage.' : null));
}

function memoryTable() {
  if (data.memory_table === null) return null;
  const {machine, whole, rows} = data.memory_table;
  const percent = (value) => `${(value / whole * 100).toFixed(1)} %`;
  const lines = rows.map(([name, meaning, value]) => element('tr', element('td.number', size(value)), element('td.number', percent(value)),
                                                             element('td', name), element('td', meaning)));
  return section('memory-table', `Where the memory was, of ${size(whole)} ${machine ? 'RAM' : 'in use'}`,
                 element('div.scroll', element('table.narrow', element('tbody', lines))),
                 element('p.note', "By the counters of the kernel's report; what none of them has is uncounted."));
}

function taskSums() {
  if (data.tasks === null || data.tasks.listed < 2) return null;
  const {listed, rss, of, groups} = data.tasks;
  const several = groups.slice(0, 8).map(([name, count, held]) => `${count} × ${name} ${size(held)}`);
  const parts = several.length ? ` ${of}: ${several.join(', ')}` : '';
  return element('p.note', `Sum of the ${listed} processes of the kernel's table: ${size(rss)}${parts}`);
}

function chain() {
  if (data.chain.length === 0) return null;
  const rows = data.chain.map((level) => {
    const percent = level.limit ? `${(level.usage / level.limit * 100).toFixed(0)} %` : '';
    return element(level.met ? 'li.met' : 'li', element('div', element('span.name', level.path ?? 'unknown'),
                   level.met ? element('span.badge.limit', 'its limit was hit') : null),
                   bar(level.limit ? [{mark: level.met ? 'limit' : 'anon', value: level.usage}] : [], level.limit || 1),
                   element('div.of', level.limit === null ? `${size(level.usage)}, no limit` : `${size(level.usage)} of ${size(level.limit)}`,
                           ' ', element('span.dim', percent)));
  });
  return section('chain', 'Chain of limits', element('ol.chain', rows));
}

function machine() {
  if (data.machine === null) return null;
  const {zones, slabs} = data.machine;
  const of = (title, value) => (value === null ? null : fact(title, value));
  const swap = data.machine.swap_total === null ? null
      : data.machine.swap_total === 0 ? 'none' : `${size(data.machine.swap_free)} free of ${size(data.machine.swap_total)}`;
  const facts = [of('Memory', data.machine.ram === null ? null : `${size(data.machine.free)} free of ${size(data.machine.ram)}`), of('Swap', swap),
                 of('NUMA nodes allowed', data.machine.mems_allowed), of('Nodes of its policy', data.machine.nodemask),
                 of('Cpuset', data.machine.cpuset)].filter(Boolean);
  const named = (title) => ({title, value: (row) => row.name, cell: (row) => element('span.name', row.name)});
  const bytes = (key, title) => ({title, number: true, value: (row) => row[key], cell: (row) => size(row[key])});
  const node = {title: 'Node', number: true, value: (zone) => zone.node, cell: (zone) => (zone.node === null ? UNKNOWN : String(zone.node))};
  return section('machine', 'What the machine had left', element('dl.facts', facts),
                 zones.length ? sortableTable([named('Zone'), node, bytes('free', 'Free'), bytes('min', 'min'), bytes('low', 'low'),
                                               bytes('high', 'high'), bytes('managed', 'Managed')], zones) : null,
                 slabs.length ? sortableTable([named('Slab that cannot be reclaimed'), bytes('used', 'Used'), bytes('total', 'Held')], slabs) : null,
                 element('p.note', "By the kernel's report. A request is refused when what is free falls to min; below low the kernel reclaims."));
}

function checks() {
  const {mark_victim, kmsg, vmstat} = data.checks;
  const counts = [['kernel tracepoint', mark_victim], ['kernel log', kmsg], ['/proc/vmstat', vmstat]];
  const known = counts.map(([, count]) => count).filter((count) => count !== null);
  const same = known.every((count) => count === known[0]);
  const verdict = known.length === 0 ? 'No source counted the kills.'
      : known.length === 1 ? 'Only one source counted; nothing checks it.'
      : same ? `${known.length} sources agree.` : 'The sources differ.';
  const {lost} = data;
  // Without a timeline the losses of that time are not kept either.
  const none = data.live && !timeline.empty() ? 'No record was lost.' : 'Whether records were lost is not known.';
  return section('checks', 'Checks', element('p', verdict),
                 element('dl.facts', counts.map(([name, count]) => fact(name, count === null ? 'not known' : `${count} killed`))),
                 element('p.note', lost.length === 0 ? none
                                                      : `Lost: ${lost.join('. ')}.`));
}

function unknown() {
  return data.unknown.length ? section('unknown', 'What is not known', element('ul.plain', data.unknown.map((line) => element('li', line)))) : null;
}

const memory = mainChart(), others = otherCharts();
const columns = [kinds(), chain()].filter(Boolean);
document.body.append(element(
    'main', header(), timeline.empty() ? null : memory,
    data.findings.length ? section('findings', 'What happened, and why', findings(data.findings)) : null,
    data.prevention.length ? section('prevention', 'What would have prevented it', findings(data.prevention)) : null,
    facts(), timeline.empty() ? memory : others, events(), processes(), columns.length ? element('div.columns', columns) : null, memoryTable(), machine(), checks(), unknown(),
    data.next.length ? section('next', 'So that it is known next time', findings(data.next)) : null,
    element('footer', `Episode ${data.id}, ${data.source}. `, `oomcast ${data.version || UNKNOWN} on ${data.kernel ? `Linux ${data.kernel}` : 'an unknown kernel'}. `,
            data.order === null && data.gfp === null ? null : `Asked for: ${[data.order === null ? null : `order ${data.order}`, data.gfp].filter(Boolean).join(', ')}. `,
            'This file loads and sends nothing.')));
memory.draw?.();
others?.draw();

themed.push(() => timeline.charts.forEach((chart) => chart.redraw(false, true)));
new ResizeObserver(() => timeline.resize()).observe(document.querySelector('main'));
// Before the paper's layout is known: as wide as A4 and Letter both are between their margins.
addEventListener('beforeprint', () => timeline.resize(660));
addEventListener('afterprint', () => timeline.resize());
