// What every page shares: elements, units, the theme. Text of strangers becomes text nodes and nothing else.
'use strict';

// element('div.card', 'text', child, …): text is set as text; null and undefined are left out.
function element(selector, ...children) {
  const [tag, ...classes] = selector.split('.');
  const made = document.createElement(tag);
  made.classList.add(...classes);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function attributes(of, values) {
  for (const [name, value] of Object.entries(values)) of.setAttribute(name, value);
  return of;
}

const UNKNOWN = '–';
const minus = (text) => text.replace('-', '−');

// "512 MiB", "1.50 GiB": three significant figures, as the other formats of the report.
function size(bytes) {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = Math.abs(bytes), unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) value /= 1024, ++unit;
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${bytes < 0 ? '−' : ''}${value.toFixed(digits)} ${units[unit]}`;
}

function rate(bytes) {
  if (bytes === null) return UNKNOWN;
  return `${bytes > 0 ? '+' : ''}${size(Math.round(bytes))}/s`;
}

// "250 ms", "13 s", "4 min 10 s", "2 h 05 min", "8 d 3 h".
function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 0.9995) return `${(seconds * 1000).toFixed(0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds), two = (n) => String(Math.floor(n)).padStart(2, '0');
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

// A clock of UTC and of the machine the page was made on.
class Clock {
  constructor({epoch_ms, offset_s, zone}) {
    Object.assign(this, {epoch_ms, offset_s, zone});
  }
  text(s, from, to, offset_s) {
    const date = new Date(this.epoch_ms + s * 1000 + offset_s * 1000);
    return Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString().slice(from, to).replace('T', ' ');
  }
  get local() { return this.zone !== 'UTC' && this.zone !== ''; }
  // "03:04:05.123 UTC · 04:04:05.123 CET"
  time(s) {
    const utc = `${this.text(s, 11, 23, 0)} UTC`;
    return this.local ? `${utc} · ${this.text(s, 11, 23, this.offset_s)} ${this.zone}` : utc;
  }
}

// Calls back when what `getComputedStyle` says may have changed.
const themed = [];
function retheme() {
  for (const callback of themed) callback();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  retheme();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function themeButton() {
  const button = attributes(element('button.theme'), {type: 'button'});
  const label = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };
  button.addEventListener('click', () => setTheme(isDark() ? 'light' : 'dark'));
  themed.push(label);
  label();
  return button;
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', retheme);

// Paper is white.
let themeBeforePrint;
addEventListener('beforeprint', () => {
  themeBeforePrint = document.documentElement.dataset.theme;
  setTheme('light');
});
addEventListener('afterprint', () => setTheme(themeBeforePrint));

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A table whose columns sort. columns: {title, value(row), cell(row), number}; unknown values stay last.
function sortableTable(columns, rows) {
  const body = element('tbody');
  let shown = rows.slice();
  const fill = () => body.replaceChildren(...shown.map((row) => {
    const line = element(row.kind ? `tr.${row.kind}` : 'tr');
    for (const column of columns) line.append(element(column.number ? 'td.number' : 'td', column.cell(row)));
    return line;
  }));
  const heads = columns.map((column) => {
    const button = attributes(element('button', column.title), {type: 'button'});
    const head = attributes(element(column.number ? 'th.number' : 'th', button), {scope: 'col', 'aria-sort': 'none'});
    button.addEventListener('click', () => {
      const was = head.getAttribute('aria-sort');
      const first = column.number ? 'descending' : 'ascending';
      const other = column.number ? 'ascending' : 'descending';
      const order = was === first ? other : first;
      for (const each of heads) each.setAttribute('aria-sort', 'none');
      head.setAttribute('aria-sort', order);
      const sign = order === 'ascending' ? 1 : -1;
      shown = rows.slice().sort((a, b) => {
        const x = column.value(a), y = column.value(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === 'string' ? x.localeCompare(y) : x - y);
      });
      fill();
    });
    return head;
  });
  fill();
  return element('div.scroll', element('table', element('thead', element('tr', heads)), body));
}
