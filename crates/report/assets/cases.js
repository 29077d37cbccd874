// Charts that compare cases: throughput and latency.

const groupColour = (group) => colours[data.axis.groups[group].colour];

// Groups stand side by side within the place of their level. Where lines join the levels they stand in one place:
// lines that start side by side seem to cross.
const groupsOf = (panel) => [...data.axis.groups.keys()].filter((group) => data.axis.groups[group].panel === panel);
const sideBySide = (group) => data.axis.numeric ? [group] : groupsOf(data.axis.groups[group].panel);
const slot = (group, band) => Math.min((band * 0.62) / sideBySide(group).length, 40);
const offset = (group, band) => {
  const row = sideBySide(group);
  return (row.indexOf(group) - (row.length - 1) / 2) * slot(group, band);
};
const halfWidth = (group, band) => slot(group, band) * (data.axis.groups.length > 1 && data.axis.numeric ? 0.26 : 0.42);

// The groups of a panel; grey lines: those of the others.
function throughputByCase(panel, element) {
  const series = [], ends = [];
  const inPanel = groupsOf(panel);
  data.axis.groups.forEach(({ series: name }, group) => {
    const cases = data.cases.filter((c) => c.group === group && c.median !== null && c.range);
    cases.sort((a, b) => a.level - b.level);
    if (data.axis.groups[group].panel !== panel) {
      if (cases.length && data.axis.numeric) series.push(medianLine('', cases, group, colours.line, 0));
      return;
    }
    const colour = groupColour(group);
    const hasLaw = data.scalability.some((one) => one.group === group);
    const isJoined = cases.length && data.axis.numeric;
    if (isJoined && !hasLaw) series.push(medianLine(name, cases, group, colour, 1));
    if (cases.length) series.push(boxes(name, cases, group, colour));
    series.push(dots(name, group, colour));
    const last = cases[cases.length - 1];
    if (isJoined) ends.push({ name, colour, level: last.level, value: last.median });
  });
  series.push(...data.scalability.filter((one) => inPanel.includes(one.group)).map(law));
  const named = inPanel.map((group) => ({ name: data.axis.groups[group].series, colour: groupColour(group) }));
  const short = withoutShared(ends.map((end) => end.name));
  ends.forEach((end, i) => { end.text = short[i]; });
  let room = 0;
  if (inPanel.length > 1 && data.axis.panels.length === 1) {
    room = ends.length === inPanel.length ? endRoom(element, short) : 0;
    if (room) keys(element, []);
    else keyButtons(element, named);
  } else if (inPanel.length > 1 && ends.length === inPanel.length) {
    room = endRoom(element, short);
  }
  const words = data.cases.filter((c) => inPanel.includes(c.group) && c.median !== null).map((c) => `${c.label}: ${significant(c.median)} tps`);
  const axis = placesAxis(element);
  const grid = { left: 62, right: 12 + room, top: 30, bottom: axis.bottom };
  return {
    ...frame(`Throughput of each case, median of its runs. ${words.join('; ')}.`),
    grid, xAxis: axis.option, yAxis: valueAxis({ min: 0, ...(data.axis.panels.length > 1 ? { max: reach(measured(data.cases)) } : {}) }), series,
    ends: room ? ends : [],
  };
}

// An axis of names, with the room that it needs below; names that do not fit side by side are turned.
function placesAxis(element, names = data.axis.levels, title = data.axis.title, isNumeric = data.axis.numeric) {
  const option = { ...levelAxis(), data: names, name: title };
  const longest = highest(names.map((name) => name.length));
  const room = (element.clientWidth - 74) / names.length;
  if (isNumeric || longest * 7.4 + 8 <= room) return { option, bottom: title ? 52 : 30 };
  const shown = Math.min(longest, 22);
  const height = Math.ceil(shown * 6.6 * Math.sin(Math.PI / 3)) + 14;
  option.axisLabel = { ...option.axisLabel, fontSize: 12, rotate: 60, interval: 0, hideOverlap: false, width: shown * 7.8 + 6, overflow: 'truncate' };
  option.nameGap = height + 6;
  return { option, bottom: height + (title ? 26 : 4) };
}

function medianLine(name, cases, group, colour, weight) {
  const isOne = data.axis.groups.length === 1;
  const lineWidth = weight ? (isOne ? 1.5 : 2) : 1;
  return {
    type: 'custom', name, ...alone(), silent: !weight, z: weight ? 1 : 0, data: [[cases[0].level, cases[0].median]], tooltip: { show: false },
    renderItem: (params, api) => {
      const shift = offset(group, api.size([1, 0])[0]);
      const points = cases.map((c) => api.coord([c.level, c.median])).map(([x, y]) => [x + shift, y]);
      // Of the panel's own cases there are boxes.
      if (points.length === 1 && !weight) return { type: 'circle', shape: { cx: points[0][0], cy: points[0][1], r: 2 }, style: { fill: colour } };
      return {
        type: 'polyline', shape: { points }, focus: 'series',
        style: { stroke: colour, fill: 'none', lineWidth, opacity: weight && isOne ? 0.45 : 1 },
        emphasis: { style: { lineWidth: lineWidth + 1 } },
      };
    },
  };
}

// The place of a number of clients between the levels, which stand at equal distances.
function between(clients) {
  const levels = data.axis.levels.map(Number);
  const next = levels.findIndex((level) => level >= clients);
  if (next < 0) return null;
  if (levels[next] === clients) return next;
  if (next === 0) return null;
  const [low, high] = [levels[next - 1], levels[next]].map(Math.log);
  return next - 1 + (Math.log(clients) - low) / (high - low);
}

// The fitted scalability law of a group over its medians, with a ring at its peak.
function law({ group, curve, peak }) {
  const colour = groupColour(group);
  const points = [...curve, ...(peak ? [peak] : [])].map(([clients, tps]) => [between(clients), tps]);
  const ring = peak ? points[points.length - 1] : null;
  const line = points.slice(0, curve.length).filter(([place]) => place !== null);
  return {
    type: 'custom', name: data.axis.groups[group].series, ...alone(), z: 1, tooltip: { show: false }, data: [[0, highest(line.map(([, tps]) => tps))]],
    renderItem: (params, api) => {
      // Only whole levels have coordinates of their own.
      const at = ([place, tps]) => {
        const low = Math.min(Math.floor(place), Math.max(data.axis.levels.length - 2, 0));
        const [x0, y] = api.coord([low, tps]);
        const x1 = api.coord([low + 1, tps])[0];
        return [x0 + (x1 - x0) * (place - low) + offset(group, api.size([1, 0])[0]), y];
      };
      const children = [{ type: 'polyline', shape: { points: line.map(at) }, style: { stroke: colour, fill: 'none', lineWidth: 1.5, lineDash: [5, 4] } }];
      if (ring && ring[0] !== null) {
        const [cx, cy] = at(ring);
        children.push({ type: 'circle', shape: { cx, cy, r: 7 }, style: { fill: 'none', stroke: colour, lineWidth: 2 } });
      }
      return { type: 'group', focus: 'series', children };
    },
  };
}

// Box of the quartiles where there are enough runs, a bar at the median, a line from lowest to highest.
function boxes(name, cases, group, colour) {
  return {
    type: 'custom', name, ...alone(), z: 2, data: cases.map((c) => [c.level, c.median, c.range[0], c.range[1]]),
    encode: { x: 0, y: [1, 2, 3] },
    tooltip: { formatter: (p) => caseTip(cases[p.dataIndex]) },
    renderItem: (params, api) => {
      const item = cases[params.dataIndex];
      const band = api.size([1, 0])[0];
      const half = halfWidth(group, band);
      const at = (value) => api.coord([item.level, value])[1];
      const x = api.coord([item.level, 0])[0] + offset(group, band);
      const line = (x1, y1, x2, y2, lineWidth) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth } });
      const children = [];
      if (item.quartiles) {
        children.push(line(x, at(item.range[0]), x, at(item.range[1]), 1.5));
        const [low, high] = item.quartiles.map(at);
        children.push({
          type: 'rect', shape: { x: x - half, y: high, width: 2 * half, height: Math.max(low - high, 1) },
          style: { fill: colours.page, stroke: colour, lineWidth: 1.5 },
        });
      }
      children.push(line(x - half, at(item.median), x + half, at(item.median), 2.5));
      if (data.cases.length <= 12 && data.axis.groups.length === 1) {
        // Above the dots, or next to the bar where they are far from it.
        const isFar = at(item.median) - at(item.range[1]) > 14;
        const text = significant(item.median);
        // Nothing is drawn beyond the edge, where the last one would end.
        const width = 7.8 * text.length + 2, edge = api.getWidth();
        const side = x + half + 6 + width > edge ? { x: x - half - 6, align: 'right' } : { x: x + half + 6, align: 'left' };
        const place = isFar ? { ...side, y: at(item.median), verticalAlign: 'middle' }
          : { x: Math.min(x, edge - width / 2), y: at(item.range[1]) - 9, align: 'center', verticalAlign: 'bottom' };
        children.push({
          type: 'text', silent: true,
          style: { text, ...place, fill: colours.text, font: `600 13px ${fontFamily}` },
        });
      }
      return { type: 'group', focus: 'series', children };
    },
  };
}

function caseTip(item) {
  const rows = [`median ${significant(item.median)} tps`, `lowest ${significant(item.range[0])}, highest ${significant(item.range[1])}`];
  if (item.ms) rows.push(`p50 ${significant(item.ms.p50)}, p99 ${significant(item.ms.p99)} ms`);
  return lines(item.label, rows);
}

// Each run a dot next to its box, in the order of execution; runs that do not count are hollow.
function dots(name, group, colour) {
  const points = data.points
    .map((p) => ({ ...p, place: data.cases.find((c) => c.id === p.case) }))
    .filter((p) => p.place.group === group);
  return {
    type: 'custom', name, ...alone(), z: 3, data: points.map((p) => [p.place.level, p.tps]),
    tooltip: { formatter: (p) => runTip(points[p.dataIndex]) },
    renderItem: (params, api) => {
      const p = points[params.dataIndex];
      const [x, y] = api.coord([p.place.level, p.tps]);
      const band = api.size([1, 0])[0];
      const half = halfWidth(group, band);
      const siblings = points.filter((q) => q.case === p.case);
      const spread = siblings.length === 1 ? 0 : (siblings.indexOf(p) / (siblings.length - 1) - 0.5) * half * 1.2;
      return {
        type: 'circle', focus: 'series', shape: { cx: x + offset(group, band) + spread, cy: y, r: data.axis.groups.length > 1 ? 2.4 : 3.2 },
        style: p.counts
          ? { fill: colour, stroke: colours.page, lineWidth: 0.8 }
          : { fill: colours.page, stroke: colours.muted, lineWidth: 1.4 },
      };
    },
  };
}

function runTip(point) {
  const rows = [`${significant(point.tps)} tps`];
  if (point.ms) rows.push(`p50 ${significant(point.ms.p50)}, p99 ${significant(point.ms.p99)} ms`);
  if (point.why) rows.push(`does not count: ${point.why}`);
  return lines(`Run ${point.run}`, rows);
}

function throughputOfRuns() {
  const points = data.points;
  const median = data.cases[0].median;
  const words = points.map((p) => `run ${p.run}: ${significant(p.tps)} tps`);
  const name = median === null ? '' : `median ${significant(median)}`;
  const option = {
    ...frame(`Throughput of each run in the order of execution. ${words.join('; ')}.`),
    grid: { left: 62, right: 16 + 7.5 * name.length, top: 14, bottom: 52 },
    xAxis: { ...levelAxis(), data: points.map((p) => String(p.run)), name: 'run' }, yAxis: valueAxis({ min: 0 }),
    series: [{
      type: 'scatter', symbolSize: 11, tooltip: { formatter: (p) => runTip(points[p.dataIndex]) },
      data: points.map((p, i) => ({
        value: [i, p.tps],
        itemStyle: p.counts
          ? { color: colours.c0 }
          : { color: colours.page, borderColor: colours.muted, borderWidth: 1.5 },
      })),
    }],
  };
  if (median !== null) {
    option.series[0].markLine = {
      silent: true, symbol: 'none', lineStyle: { color: colours.p0, type: 'solid', width: 1.5 },
      label: { ...label(), color: colours.text, position: 'end', formatter: name },
      data: [{ yAxis: median }],
    };
  }
  return option;
}

// ---- latency

const percentileColour = { p50: 'p0', p95: 'p1', p99: 'p2', max: 'p3' };

function latencyByCase(percentiles, byGroup, element) {
  const series = [], all = [];
  data.axis.groups.forEach((group, index) => {
    const cases = data.cases.filter((c) => c.group === index && c.ms).sort((a, b) => a.level - b.level);
    for (const percentile of percentiles) {
      const colour = byGroup ? groupColour(index) : colours[percentileColour[percentile]];
      all.push(...cases.map((c) => c.ms[percentile]));
      series.push({
        type: data.axis.numeric ? 'line' : 'scatter', name: byGroup ? group.series : percentile, ...(byGroup ? alone() : {}), symbol: 'circle',
        symbolSize: data.axis.numeric ? 7 : 11, color: colour, lineStyle: { width: 2 },
        data: cases.map((c) => [c.level, c.ms[percentile]]),
        tooltip: { formatter: (p) => caseLatencyTip(cases[p.dataIndex]) },
        endLabel: { show: !byGroup && data.axis.numeric, formatter: percentile, color: colours.text, fontFamily, fontSize: 13, distance: 8 },
      });
    }
  });
  if (!byGroup && !data.axis.numeric) keys(element, percentiles.map((name) => ({ name, colour: colours[percentileColour[name]] })));
  const axis = placesAxis(element);
  const words = data.cases.filter((c) => c.ms).map((c) => `${c.label}: ${percentiles.map((p) => `${p} ${significant(c.ms[p])} ms`).join(', ')}`);
  return {
    ...frame(`Latency of each case. ${words.join('; ')}.`),
    grid: { left: 62, right: !byGroup && data.axis.numeric ? 48 : 12, top: 14, bottom: axis.bottom },
    xAxis: axis.option, yAxis: logAxis(all), series,
  };
}

function caseLatencyTip(item) {
  return lines(item.label, ['p50', 'p90', 'p95', 'p99', 'p999', 'max'].map((p) => `${p === 'p999' ? 'p99.9' : p} ${significant(item.ms[p])} ms`));
}

function latencyOfOne() {
  const names = ['p50', 'p90', 'p95', 'p99', 'p999', 'max'];
  const titles = ['p50', 'p90', 'p95', 'p99', 'p99.9', 'max'];
  const of = (ms) => names.map((name) => ms[name]);
  const runs = data.points.filter((p) => p.ms && p.counts);
  const series = runs.map((p) => ({
    type: 'line', name: `run ${p.run}`, data: of(p.ms), symbol: 'none', silent: true, color: colours.c0, lineStyle: { width: 1, opacity: 0.4 },
  }));
  const ms = data.cases[0].ms;
  series.push({
    type: 'line', name: 'all runs', data: of(ms), symbol: 'circle', symbolSize: 8, color: colours.c0, lineStyle: { width: 2.5 },
    label: { show: true, position: 'top', distance: 8, formatter: (p) => significant(p.value), color: colours.text, fontFamily, fontSize: 13 },
    tooltip: { formatter: () => caseLatencyTip(data.cases[0]) },
  });
  const all = [...runs.flatMap((p) => of(p.ms)), ...of(ms)];
  return {
    ...frame(`Latency. ${names.map((n, i) => `${titles[i]} ${significant(ms[n])} ms`).join('; ')}.`),
    grid: { left: 62, right: 24, top: 30, bottom: 30 },
    xAxis: { ...levelAxis(), data: titles, name: '' }, yAxis: logAxis(all), series,
  };
}
