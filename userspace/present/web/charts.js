// The curves of a timeline, by uPlot, on one time axis: seconds from the kill.
'use strict';

// What ColumnWriter wrote (report_html.cpp).
function column(text, length) {
  if (text === '') return new Array(length).fill(null);
  const unit = text[0] === '#' ? 4096 : 1;
  const values = [];
  let known = 0, value = null;
  for (const token of text.slice(unit === 1 ? 0 : 1).split(' ')) {
    if (token[0] === '*') {
      for (let n = parseInt(token.slice(1), 36); n > 0; --n) values.push(value);
    } else {
      values.push(value = token === '~' ? null : known += parseInt(token, 36) * unit);
    }
  }
  return values;
}

// From the bottom of the stack: what nobody can drop first, what is not in the usage last.
const KINDS = ['anon', 'shmem', 'kernel', 'unattributed', 'file', 'swap'];
const kindOrder = (name) => (KINDS.includes(name) ? KINDS.indexOf(name) : KINDS.indexOf('unattributed'));
const kindColor = (name) => color(KINDS.includes(name) ? name : 'unattributed');

const TIME_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800,
                    604800];
const SIZE_STEPS = Array.from({length: 60}, (_, i) => 2 ** i);

// "4 GiB", "0".
function axisSize(bytes) {
  return bytes === 0 ? '0' : size(bytes).replace(/\.0+ /, ' ').replace(/(\.\d*?)0+ /, '$1 ');
}

// "−5 min", "kill".
function axisTime(s) {
  if (s === 0) return 'kill';
  const sign = s < 0 ? '−' : '+', t = Math.abs(s), tidy = (n) => String(Math.round(n * 10) / 10);
  if (t < 60) return `${sign}${tidy(t)} s`;
  if (t < 3600) return t % 60 === 0 ? `${sign}${t / 60} min` : `${sign}${Math.floor(t / 60)}:${String(Math.round(t % 60)).padStart(2, '0')}`;
  if (t < 86400) return t % 3600 === 0 ? `${sign}${t / 3600} h` : `${sign}${Math.floor(t / 3600)} h ${Math.round((t % 3600) / 60)}`;
  return `${sign}${tidy(t / 86400)} d`;
}

function fromKill(s) {
  if (Math.abs(s) < 0.0005) return 'at the kill';
  return s < 0 ? `${duration(-s)} before the kill` : `${duration(s)} after the kill`;
}

const EVENT_COLOR = {
  'kill': 'kill', 'user kill': 'kill', 'alert': 'forecast', 'verdict': 'ink-2', 'exit': 'ink-3', 'reclaim': 'kernel',
  'limit': 'limit', 'lost': 'ink-3'};

// A dot without a line: there may be many.
const FREQUENT = ['reclaim', 'exit', 'lost'];
const isKill = (event) => event.kind === 'kill' || event.kind === 'user kill';

class Timeline {
  constructor(data, clock) {
    this.clock = clock;
    const at = column(data.at_ms, 0).map((ms) => ms / 1000);
    this.at = at;
    this.events = data.events;
    // A kill is drawn over what happened beside it.
    this.marks = [...data.events].sort((a, b) => isKill(a) - isKill(b));
    this.forecasts = data.forecasts.map(([when, eta, low, high]) => ({at: when, eta, low, high}));
    this.curves = data.curves.map((curve) => ({
      ...curve,
      total: column(curve.total, at.length),
      pinned: column(curve.pinned, at.length),
      limit: column(curve.limit, at.length),
      kinds: curve.kinds.map((kind) => ({name: kind.name, values: column(kind.values, at.length)}))
          .filter((kind) => kind.values.some((value) => value !== null && value !== 0))
          .sort((a, b) => kindOrder(a.name) - kindOrder(b.name)),
    }));
    const first = Math.min(at.length ? at[0] : 0, 0), last = Math.max(at.length ? at[at.length - 1] : 0, 0);
    const span = Math.max(last - first, 0.5);
    this.range = [first - span * 0.005, last + span * 0.03];
    // What is shown while nobody points anywhere: the last moment before the memory went.
    this.rest = at.length - 1;
    while (this.rest > 0 && at[this.rest] > 0) --this.rest;
    this.charts = [];
    this.sync = uPlot.sync('timeline');
    this.listeners = [];
    this.rangeListeners = [];  // called with the range that is shown, when it changes
  }

  empty() { return this.at.length === 0 || this.curves.length === 0; }

  // The last value that was known at a moment no later than `index`.
  static lastKnown(values, index) {
    for (let i = index; i >= 0; --i)
      if (values[i] !== null && values[i] !== undefined) return values[i];
    return null;
  }

  forecastAt(s) {
    let found = null;
    for (const told of this.forecasts) {
      if (told.at > s) break;
      found = told;
    }
    return found;
  }

  // The forecast that a person would have been told first.
  firstTold() {
    const alert = this.events.find((event) => event.kind === 'alert' && event.at <= 0);
    return (alert && this.forecastAt(alert.at)) || this.forecasts.find((told) => told.at <= 0) || null;
  }

  // Puts the cursor of all charts there; null takes it away.
  pointAt(s) {
    for (const chart of this.charts)
      chart.setCursor(s === null ? {left: -10, top: -10} : {left: chart.valToPos(s, 'x'), top: 1}, true, false);
  }

  // The newest `seconds` before the kill; all of it without an argument.
  rangeOf(seconds) {
    const [min, max] = this.range;
    return seconds === undefined ? [min, max] : [Math.max(min, -seconds), seconds * 0.04];
  }

  zoom(seconds) {
    const [min, max] = this.rangeOf(seconds);
    for (const chart of this.charts) chart.setScale('x', {min, max});
  }

  // Whether zoom(seconds) shows this range.
  shows(seconds, min, max) {
    const [from, to] = this.rangeOf(seconds), near = (this.range[1] - this.range[0]) * 1e-6;
    return Math.abs(min - from) <= near && Math.abs(max - to) <= near;
  }

  // To the width of what is around each; or to one that is given.
  resize(given) {
    for (const chart of this.charts) {
      const width = given ?? Math.max(chart.box.clientWidth, 200);
      if (width !== chart.width) chart.setSize({width, height: chart.height});
    }
  }

  // told(index, s): what stands beside the chart is to be of that moment; null: nobody points at one.
  add(box, {height, series, bands, data, y, told, drawn, dataIdx}) {
    const grid = {stroke: () => color('grid'), width: 1};
    const axis = {font: '12px system-ui, sans-serif', stroke: () => color('ink-3'), grid};
    const all = (u, min, max) => (min === u.data[0][0] && max === u.data[0][u.data[0].length - 1] ? this.range : [min, max]);
    const chart = new uPlot({
      width: Math.max(box.clientWidth, 200),
      height,
      legend: {show: false},
      padding: [12, 4, 0, 0],
      cursor: {sync: {key: 'timeline'}, y: false, drag: {x: true, y: false}, dataIdx,
               points: {size: (u, i) => (u.series[i].width >= 1.5 ? 7 : 0), width: 1.5}},
      scales: {x: {time: false, range: all}, y: {range: () => y.range}},
      axes: [
        {...axis, incrs: TIME_STEPS, space: 84, size: 30, ticks: {...grid, size: 5},
         values: (u, splits) => splits.map((s) => axisTime(Math.round(s * 1000) / 1000))},
        {...axis, incrs: y.steps, size: box.clientWidth < 480 ? 58 : 78, space: 34, gap: 8, ticks: {show: false},
         values: (u, splits) => splits.map((value) => y.label(value))},
      ],
      bands: bands ?? [],
      series: [{}, ...series.map((each) => ({width: 0, points: {show: false}, ...each}))],
      hooks: {
        setCursor: [(u) => {
          const pointed = u.cursor.left >= 0 && u.cursor.idx !== null && u.cursor.idx !== undefined;
          told(pointed ? u.cursor.idx : null, pointed ? u.posToVal(u.cursor.left, 'x') : null);
          if (u === this.charts[0])
            for (const listener of this.listeners) listener(pointed ? u.data[0][u.cursor.idx] : null);
        }],
        setScale: [(u, key) => {
          if (key !== 'x' || u !== this.charts[0]) return;
          for (const listener of this.rangeListeners) listener(u.scales.x.min, u.scales.x.max);
        }],
        draw: [(u) => this.drawEvents(u), ...(drawn ? [drawn] : [])],
      },
    }, data, box);
    Object.assign(chart, {box});
    this.charts.push(chart);
    told(null, null);
    return chart;
  }

  drawEvents(u) {
    const {ctx, bbox} = u, px = uPlot.pxRatio;
    ctx.save();
    for (const event of this.marks) {
      const x = u.valToPos(event.at, 'x', true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const strong = isKill(event);
      ctx.strokeStyle = ctx.fillStyle = color(EVENT_COLOR[event.kind] || 'ink-3');
      ctx.lineWidth = (strong ? 1.5 : 1) * px;
      ctx.globalAlpha = strong ? 1 : 0.75;
      ctx.setLineDash(strong ? [] : [3 * px, 3 * px]);
      if (!FREQUENT.includes(event.kind)) {
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.arc(x, bbox.top - 5 * px, 3 * px, 0, 2 * Math.PI);
      ctx.fill();
    }
    ctx.restore();
  }
}

// A line of values that follows the cursor: chips of a mark, a name and a value.
class Readout {
  constructor(entries) {
    this.values = entries.map(() => element('b'));
    this.element = element('ul.readout', entries.map(({name, mark}, i) => {
      const swatch = element(`span.swatch.${mark}`);
      return element('li', swatch, ' ', element('span.name', name), ' ', this.values[i]);
    }));
  }
  set(texts) {
    texts.forEach((text, i) => { if (this.values[i].textContent !== text) this.values[i].textContent = text; });
  }
}

const mark = (name) => (KINDS.includes(name) ? name : 'unattributed');

// A cgroup or a process, its kinds of memory on top of one another.
function memoryChart(timeline, curve, {height, wedge}) {
  const length = timeline.at.length;
  const sums = [];
  const below = new Array(length).fill(0);
  for (const kind of curve.kinds)
    sums.push(kind.values.map((value, i) => (value === null ? null : below[i] += Math.max(value, 0))));
  const most = Math.max(0, ...[curve.total, curve.pinned, ...sums].map((values) => values.reduce((a, b) => Math.max(a, b === null ? 0 : b), 0)));
  const limit = curve.limit.reduce((a, b) => Math.max(a, b === null ? 0 : b), 0);
  const limitInSight = limit > 0 && (wedge || limit <= most * 3);
  const top = Math.max(most, limitInSight ? limit : 0, 4096) * 1.06;

  // The tallest first: each lower one is painted over it.
  const series = [], data = [timeline.at];
  for (let i = sums.length - 1; i >= 0; --i) {
    const name = curve.kinds[i].name;
    series.push({label: name, fill: () => kindColor(name), stroke: () => color('surface'), width: 0.75});
    data.push(sums[i]);
  }
  const has = (values) => values.some((value) => value !== null);
  const entries = curve.kinds.slice().map(({name, values}) => ({name, mark: mark(name), values}));
  if (has(curve.total)) {
    series.push({label: 'total', stroke: () => color('ink'), width: 1.5, points: {show: length < 3},
                 fill: sums.length ? undefined : () => color('unattributed')});
    data.push(curve.total);
    entries.push({name: curve.process ? 'resident' : 'usage', mark: 'total', values: curve.total});
  }
  if (has(curve.pinned)) {
    series.push({label: 'pinned', stroke: () => color('ink'), width: 1, dash: [2, 3]});
    data.push(curve.pinned);
    entries.push({name: 'not reclaimable', mark: 'pinned', values: curve.pinned});
  }
  if (limit > 0) {
    if (limitInSight) {
      series.push({label: 'limit', stroke: () => color('limit'), width: 1.75, dash: [7, 4]});
      data.push(curve.limit);
    }
    entries.push({name: limitInSight ? 'limit' : 'limit (above the chart)', mark: 'limit', values: curve.limit});
  }

  const badges = [curve.limit_owner && ['limit', 'its limit was met'], curve.victim && ['kill', curve.process ? 'killed' : 'victims in it'],
                  curve.culprit && ['culprit', 'grew most']].filter(Boolean);
  const readout = new Readout(entries);
  const plot = attributes(element('div.plot'), {role: 'img', 'aria-label': curve.trend ? `Memory of ${curve.name}: ${curve.trend}`
                                                                                        : `Memory of ${curve.name} over time, up to ${size(most)}`});
  const figure = element('figure', element('figcaption', element('span.name', curve.name),
                                           badges.map(([kind, text]) => element(`span.badge.${kind}`, text)),
                                           curve.trend ? element('span.trend', curve.trend) : null),
                         readout.element, plot);
  let hovered = null, chart = null;
  const forecast = () => (hovered === null ? timeline.firstTold() : timeline.forecastAt(timeline.at[hovered]));
  let drawnForecast;
  const told = (index) => {
    const at = index === null ? timeline.rest : index;
    readout.set(entries.map(({values}) => size(index === null ? Timeline.lastKnown(values, at) : values[at])));
    hovered = index;
    if (wedge && chart && forecast() !== drawnForecast) chart.redraw(false, false);
  };
  const drawn = wedge && ((u) => {
    const told = drawnForecast = forecast();
    if (told) drawWedge(u, timeline, curve, told);
  });
  const draw = () => {
    chart = timeline.add(plot, {height, series, data, told, drawn, y: {range: [0, top], steps: SIZE_STEPS, label: axisSize}});
    chart.curve = curve;
  };
  return {figure, draw};
}

// From where the memory was to where the limit was foretold to be met: between the earliest and the latest.
function drawWedge(u, timeline, curve, told) {
  const index = Math.max(0, timeline.at.findLastIndex((s) => s <= told.at + 1e-9));
  const from = Timeline.lastKnown(curve.pinned, index) ?? Timeline.lastKnown(curve.total, index);
  const limit = Timeline.lastKnown(curve.limit, index) ?? Timeline.lastKnown(curve.limit, timeline.rest);
  if (from === null || limit === null) return;
  const {ctx, bbox} = u, px = uPlot.pxRatio;
  const x = (s) => u.valToPos(s, 'x', true), y = (bytes) => u.valToPos(bytes, 'y', true);
  const far = bbox.left + bbox.width * 4;
  const right = (s) => (s === null ? far : Math.min(x(s), far));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = ctx.strokeStyle = color('forecast');
  ctx.globalAlpha = 0.28;
  ctx.beginPath();
  ctx.moveTo(x(told.at), y(from));
  ctx.lineTo(x(told.low), y(limit));
  ctx.lineTo(right(told.high), y(limit));
  if (told.high === null) ctx.lineTo(far, y(from));
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1.5 * px;
  ctx.setLineDash([5 * px, 3 * px]);
  ctx.beginPath();
  ctx.moveTo(x(told.at), y(from));
  ctx.lineTo(x(told.eta), y(limit));
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.arc(x(told.at), y(from), 3.5 * px, 0, 2 * Math.PI);
  ctx.fill();
  ctx.restore();
}

// "first 15 s before the kill: in 15 s; last 1.1 s before the kill: in 1.0 s; 2 of 2 ranges held the kill".
function describeDeadlines(told) {
  const said = (each) => `${fromKill(each.at)}: in ${duration(each.eta - each.at)}`;
  const held = told.filter((each) => each.low <= 0 && (each.high === null || each.high >= 0)).length;
  const last = told.length > 1 ? `; last ${said(told[told.length - 1])}` : '';
  return `first ${said(told[0])}${last}; ${held} of ${told.length} ${told.length === 1 ? 'range' : 'ranges'} held the kill`;
}

// When, at each moment, the limit was foretold to be met; the line at 0 is when it was.
function deadlineChart(timeline, height) {
  const told = timeline.forecasts;
  const last = told[told.length - 1], end = Math.max(last.at, 0);
  const at = told.map((each) => each.at), eta = told.map((each) => each.eta), low = told.map((each) => each.low);
  const span = timeline.range[1] - timeline.range[0];
  // Wide enough for most; the rest leaves the chart at its top.
  const tall = told.map((each) => each.high ?? span).concat(eta).sort((a, b) => a - b);
  const top = Math.max(span * 0.1, Math.min(tall[Math.floor(tall.length * 0.9)], span * 2)) * 1.15;
  const bottom = Math.min(-top * 0.25, Math.max(Math.min(...low), -span) * 1.15);
  const high = told.map((each) => Math.min(each.high ?? Infinity, top * 10));
  if (end > last.at) {  // what was told last holds until the end
    at.push(end), eta.push(last.eta), low.push(last.low), high.push(high[high.length - 1]);
  }
  const readout = new Readout([{name: 'predicted', mark: 'forecast'}, {name: 'between', mark: 'band'}, {name: 'it came in', mark: 'kill'}]);
  const trend = describeDeadlines(told);
  const plot = attributes(element('div.plot'), {role: 'img', 'aria-label': `When the limit was predicted to be hit: ${trend}`});
  const figure = element('figure', element('figcaption', element('span.name', 'When the limit was predicted to be hit'),
                                           element('span.hint', 'the red line is when it was met'), element('span.trend', trend)),
                         readout.element, plot);
  const stepped = uPlot.paths.stepped({align: 1});
  const draw = () => {
    const chart = timeline.add(plot, {
      height,
      data: [at, high, low, eta],
      series: [
        {label: 'latest', paths: stepped, stroke: () => color('forecast'), width: 0.5},
        {label: 'earliest', paths: stepped, stroke: () => color('forecast'), width: 0.5},
        {label: 'median', paths: stepped, stroke: () => color('forecast'), width: 2, points: {show: told.length < 2}},
      ],
      bands: [{series: [1, 2], fill: () => color('forecast-band')}],
      y: {range: [bottom, top], steps: TIME_STEPS, label: axisTime},
      // What had been told by then, not what is nearest.
      dataIdx: (u, series, index, s) => (at[index] <= s || index === 0 ? index : index - 1),
      told: (index, s) => {
        const moment = index === null ? timeline.firstTold() ?? told[0] : timeline.forecastAt(s);
        if (moment === null) return readout.set(['nothing yet', UNKNOWN, UNKNOWN]);
        const {at: when} = moment;
        readout.set([`${fromKill(when)}: in ${duration(moment.eta - when)}`,
                     `${duration(moment.low - when)} and ${moment.high === null ? 'never' : duration(moment.high - when)}`,
                     duration(-when)]);
      },
      drawn: (u) => {
        const {ctx, bbox} = u, y = u.valToPos(0, 'y', true);
        ctx.save();
        ctx.strokeStyle = color('kill');
        ctx.lineWidth = 1.5 * uPlot.pxRatio;
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.restore();
      },
    });
    chart.forecasts = told;
  };
  return {figure, draw};
}
