// Who grows, from the outermost function to the line: the lines in a table, the stacks as a flame graph.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const [first, second] = data.differs ? ['Before', 'After'] : ['Grown', null];
const whole = data.tree.w;

function amount(values) {
  if (data.differs) return `${rate(values[0])} before, ${rate(values[1])} after, ${rate(values[1] - values[0])}`;
  return `${size(values[0])}, ${rate(values[0] / data.window_s)}, ${whole ? (100 * values[0] / whole).toFixed(1) : 0} %`;
}

// Growth by kind of frame; of a difference, how much of the larger is new (red) or gone (green).
function shade({k, w, values}) {
  if (!data.differs) return color({process: 'unattributed', python: 'anon', native: 'kernel'}[k]);
  const change = w ? (values[1] - values[0]) / w : 0;
  return `color-mix(in srgb, ${color(change > 0 ? 'limit' : 'good')} ${Math.round(Math.abs(change) * 80)}%, ${color('unattributed')})`;
}

function table() {
  if (data.lines.length === 0) return element('p.none', 'Nothing grew.');
  const name = (text) => element('span.name', text);
  const cell = data.differs ? rate : size;
  const columns = [
    {title: 'Line', value: (row) => row.line, cell: (row) => name(row.line)},
    {title: 'Process', value: (row) => row.process, cell: (row) => name(row.process)},
    {title: first, number: true, value: (row) => row.values[0], cell: (row) => cell(row.values[0])},
    second ? {title: second, number: true, value: (row) => row.values[1], cell: (row) => cell(row.values[1])} : null,
    second ? {title: 'Difference', number: true, value: (row) => row.values[1] - row.values[0], cell: (row) => rate(row.values[1] - row.values[0])}
           : {title: 'A second', number: true, value: (row) => row.values[0], cell: (row) => rate(row.values[0] / data.window_s)},
  ].filter(Boolean);
  return element('div.scroll.tall', sortableTable(columns, data.lines));
}

const details = element('span.details');
const search = attributes(element('input'), {type: 'search', placeholder: 'Function, file or line', 'aria-label': 'Search'});
const reset = attributes(element('button', 'All'), {type: 'button'});
const place = attributes(element('div'), {id: 'flames'});

document.body.append(element(
    'main.wide',
    element('header', element('div.bar', element('span.brand', 'oomcast'), element('span.kind', data.differs ? 'blame, difference' : 'blame'), themeButton()),
            element('h1', data.title)),
    attributes(element('section', element('h2', 'Lines'), table()), {id: 'lines'}),
    attributes(element('section', element('h2', 'Stacks, outermost on top'),
                       element('div.find', search, reset, details), place), {id: 'stacks'}),
    data.notes.length ? attributes(element('section', element('h2', 'What the numbers rest on'), element('ul', data.notes.map((note) => element('li', note)))),
                                   {id: 'notes'}) : null,
    element('footer', `${data.time}. This file loads and sends nothing.`)));

// The library reads n, v, c; w is what the width stands for.
(function give(node) {
  node.v = node.value = node.w;
  node.children = node.c;
  node.c.forEach(give);
})(data.tree);

const contains = (text, term) => text.toLowerCase().includes(term.toLowerCase());
const chart = flamegraph()
    .width(place.clientWidth - 18)
    .cellHeight(20)
    .inverted(true)
    .transitionDuration(0)
    .minFrameSize(1)
    .label(({data: node}) => `${node.n}: ${amount(node.values)}`)
    .setSearchMatch(({data: node}, term) => contains(node.n, term))
    .setSearchHandler((found, sum) => { details.textContent = `${found.length} found, ${data.differs ? rate(sum) : size(sum)}`; })
    .setDetailsHandler((text) => { if (text) details.textContent = text; })
    .setColorMapper(({data: node, highlight}) => (highlight ? color('forecast') : shade(node)));
if (whole > 0) d3.select(place).datum(data.tree).call(chart);
else place.append(element('p.none', 'Nothing grew.'));

search.addEventListener('input', () => (search.value ? chart.search(search.value) : chart.clear()));
reset.addEventListener('click', () => {
  search.value = '';
  chart.clear();
  chart.resetZoom();
});
const redraw = () => whole > 0 && chart.width(place.clientWidth - 18).update();
themed.push(redraw);
addEventListener('resize', redraw);
