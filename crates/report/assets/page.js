// Draws the charts of the page from its data block. Words and tables are in the page already.
//
// The files of the script (page.js, lines.js, cases.js, pairs.js, factors.js, capacity.js, time.js, compare.js, history.js) become one
// script element, in this order.
'use strict';

const problems = [];
const note = (text) => {
  problems.push(String(text));
  if (document.body) document.body.dataset.errors = problems.join(' | ');
};
addEventListener('error', (e) => note(e.message));
addEventListener('unhandledrejection', (e) => note(e.reason));
document.addEventListener('securitypolicyviolation', (e) => note(`policy: ${e.violatedDirective} ${e.sample}`));
document.addEventListener('DOMContentLoaded', start);

let data, colours, fontFamily;
let drawn = []; // the charts on the page, for resizing and drawing again
let shown = null; // number of the run shown over time

function start() {
  data = JSON.parse(document.getElementById('data').textContent);
  shown = data.first;
  document.getElementById('theme').addEventListener('click', () => {
    const dark = getComputedStyle(probe()).color === 'rgb(1, 1, 1)';
    setTheme(dark ? 'light' : 'dark');
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  let before = null;
  addEventListener('beforeprint', () => { before = document.documentElement.dataset.theme ?? ''; setTheme('light'); });
  addEventListener('afterprint', () => { if (before !== null) setTheme(before); before = null; });
  addEventListener('resize', () => drawn.forEach((chart) => { chart.resize(); chart.put?.(); }));
  document.querySelectorAll('.key').forEach(lights);
  for (const button of document.querySelectorAll('.strip button')) {
    button.addEventListener('click', () => choose(Number(button.dataset.run)));
  }
  draw();
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  draw();
}

// Colours come from the style sheet, resolved by an element because custom properties are not.
function probe() {
  let element = document.getElementById('probe');
  if (!element) {
    element = document.createElement('i');
    element.id = 'probe';
    element.hidden = true;
    document.body.append(element);
  }
  element.style.color = 'light-dark(rgb(0, 0, 0), rgb(1, 1, 1))';
  return element;
}

function readColours() {
  const element = probe();
  const found = {};
  const names = ['page', 'text', 'muted', 'grid', 'line', 'shade', 'soft', 'void', 'checkpoint', 'autovacuum'];
  for (let i = 0; i < 8; i++) names.push(`c${i}`);
  for (let i = 0; i < 4; i++) names.push(`p${i}`);
  for (let i = 0; i < 12; i++) names.push(`o${i}`);
  for (let i = 0; i < 9; i++) names.push(`h${i}`);
  for (const name of names) {
    element.style.color = `var(--${name})`;
    found[name] = getComputedStyle(element).color;
  }
  return found;
}

function draw() {
  drawn.forEach((chart) => chart.dispose());
  drawn = [];
  colours = readColours();
  fontFamily = getComputedStyle(document.body).fontFamily;
  for (const element of document.querySelectorAll('main .chart[data-chart]')) {
    if (!element.closest('#run')) drawNamed(element, element.dataset.chart);
  }
  choose(shown);
  document.body.dataset.rendered = drawn.length;
}

function drawNamed(element, name) {
  if (name === 'throughput') {
    place(element, data.cases.length === 1 ? throughputOfRuns() : throughputByCase(0, element));
  } else if (name.startsWith('throughput-')) {
    place(element, throughputByCase(Number(name.replace('throughput-', '')), element));
  } else if (name.startsWith('pairbars-')) {
    place(element, barsOfPair(Number(name.replace('pairbars-', '')), element));
  } else if (name.startsWith('progress-')) {
    place(element, progress(Number(name.replace('progress-', '')), element));
  } else if (name === 'prices') {
    place(element, priceChart());
  } else if (name === 'latency') {
    place(element, data.cases.length === 1 ? latencyOfOne() : latencyByCase(['p50', 'p95', 'p99'], false, element));
  } else if (name.startsWith('multiple-')) {
    place(element, barsOfLevel(Number(name.replace('multiple-', '')), element));
  } else if (name.startsWith('ratio-')) {
    place(element, ratioPlot(name));
  } else if (name.startsWith('spread-')) {
    place(element, poolBoxes(data.pools[Number(name.replace('spread-', ''))], element));
  } else if (name.startsWith('history-')) {
    place(element, historyOf(data.histories[Number(name.replace('history-', ''))]));
  } else if (name.startsWith('probes-')) {
    place(element, probesOfRun(Number(name.replace('probes-', ''))));
  } else {
    place(element, latencyByCase([name.replace('latency-', '')], true, element));
  }
}

function place(element, option) {
  const chart = echarts.init(element, null, { renderer: 'svg' });
  const { ends, ...rest } = option;
  chart.setOption(rest);
  // Charts of groups highlight one of them together.
  chart.lit = rest.series.some((one) => one.emphasis?.focus === 'series');
  if (ends?.length) endLabels(chart, ends, rest.grid);
  if (!element.querySelector('svg path')) throw new Error(`chart ${element.dataset.chart} is empty`);
  drawn.push(chart);
  return chart;
}

// ---- numbers

function significant(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return '-';
  if (x === 0) return '0';
  const digits = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(3)))));
  const decimals = Math.min(Math.max(2 - digits, 0), 9);
  return x.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

const plain = (x) => x.toLocaleString('en-US', { maximumSignificantDigits: 6 });
const two = (n) => String(Math.floor(n)).padStart(2, '0');

// Seconds as a clock: 0:40, 1:45:00.
function clock(s) {
  const at = Math.abs(s), sign = s < 0 ? '-' : '';
  const minutes = at < 3600 ? Math.floor(at / 60) : `${Math.floor(at / 3600)}:${two((at % 3600) / 60)}`;
  return `${sign}${minutes}:${two(at % 60)}`;
}

// ---- parts of options

const label = () => ({ color: colours.muted, fontSize: 12, fontFamily });

function frame(description) {
  return {
    animation: false,
    textStyle: { fontFamily, color: colours.text },
    aria: { enabled: true, label: { description } },
    tooltip: tip(),
  };
}

function tip() {
  return {
    confine: true, backgroundColor: colours.page, borderColor: colours.line, padding: [6, 10],
    textStyle: { color: colours.text, fontFamily, fontSize: 13 }, extraCssText: 'box-shadow: none',
  };
}

// Lines of a tooltip as elements: labels are text, never markup.
function lines(title, rows) {
  const box = document.createElement('div');
  box.className = 'tip';
  const head = document.createElement('b');
  head.textContent = title;
  box.append(head);
  for (const row of rows) {
    const line = document.createElement('div');
    line.textContent = row;
    box.append(line);
  }
  return box;
}

function valueAxis(more) {
  return {
    type: 'value', axisLabel: { ...label(), formatter: plain }, splitLine: { lineStyle: { color: colours.grid } },
    axisLine: { show: false }, axisTick: { show: false }, ...more,
  };
}

function levelAxis() {
  return {
    type: 'category', data: data.axis.levels, name: data.axis.title, nameLocation: 'middle', nameGap: 30,
    nameTextStyle: { ...label(), fontSize: 13 }, axisLabel: { ...label(), fontSize: 13, hideOverlap: true },
    axisLine: { lineStyle: { color: colours.line } }, axisTick: { show: false },
  };
}

// A log axis that ends at a 1, 2 or 5 around the data, not at the next power of ten, with lines at as many of
// them as fit.
function logAxis(values, fine = 2.5) {
  const known = values.filter((v) => v > 0);
  const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = highest(known);
  const step = (x, up) => {
    const power = 10 ** Math.floor(Math.log10(x));
    const steps = [1, 2, 5, 10].map((n) => n * power);
    return up ? steps.find((s) => s >= x * 0.9999) : steps.findLast((s) => s <= x * 1.0001);
  };
  if (!known.length) return valueAxis({});
  const min = step(low, false), max = Math.max(step(high, true), min * 2);
  const decades = Math.log10(max / min);
  const marks = [];
  for (let power = 10 ** Math.floor(Math.log10(min)); power <= max; power *= 10) {
    const steps = decades <= fine ? [1, 2, 5] : [1];
    for (const n of steps) if (n * power >= min * 0.9999 && n * power <= max * 1.0001) marks.push(n * power);
  }
  const axis = valueAxis({ type: 'log', min, max });
  axis.axisLabel.customValues = marks;
  axis.axisTick.customValues = marks;
  return axis;
}

// As `keys`, for series that can be highlighted.
function keyButtons(element, entries) {
  keys(element, []);
  const list = element.closest('figure').querySelector('figcaption .keys');
  for (const { name, colour } of entries) {
    const entry = document.createElement('button');
    entry.type = 'button';
    entry.className = 'key';
    entry.dataset.series = name;
    const mark = document.createElement('i');
    mark.style.color = colour;
    entry.append(mark, name);
    lights(entry);
    list.append(entry);
  }
}

function keys(element, entries) {
  const caption = element.closest('figure').querySelector('figcaption');
  caption.querySelector('.keys')?.remove();
  const list = document.createElement('span');
  list.className = 'keys';
  const values = entries.map(({ name, colour, area }) => {
    const entry = document.createElement('span');
    const mark = document.createElement('i');
    mark.style.color = colour;
    if (area) mark.className = 'area';
    const value = document.createElement('b');
    if (name) entry.append(mark, name, ' ');
    entry.append(value);
    list.append(entry);
    return value;
  });
  caption.append(list);
  return values;
}
