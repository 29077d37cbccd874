// Charts of two numeric factors, and of throughput against price.

const caseOf = (cell) => data.cases.find((c) => c.id === cell.case);

// Bars grouped by the one factor, one bar for each level of the other.
function barsOfPair(other, element) {
  const { across, along, others } = data.pair;
  const cells = data.pair.cells.filter((cell) => cell.other === other);
  const items = cells.map(caseOf);
  keys(element, along.levels.map((name, i) => ({ name, colour: colours[along.colours[i]], area: true })));
  const words = items.map((c) => `${c.label}: ${significant(c.median)} tps`);
  return {
    ...frame(`Median throughput by ${across.title} and ${along.title} ${others[other][0]}. ${words.join('; ')}.`),
    grid: { left: 62, right: 8, top: 14, bottom: 52 },
    xAxis: { ...levelAxis(), data: across.levels, name: across.title },
    yAxis: valueAxis({ min: 0, max: reach(measured(data.cases)) }),
    series: [{
      type: 'custom', data: cells.map((cell) => [cell.across, cell.tps]), encode: { x: 0, y: 1 },
      tooltip: { formatter: (p) => caseTip(items[p.dataIndex]) },
      renderItem: (params, api) => {
        const cell = cells[params.dataIndex];
        const slot = Math.min((api.size([1, 0])[0] * 0.84) / along.levels.length, 26);
        const shift = (cell.along - (along.levels.length - 1) / 2) * slot;
        return bar(api, items[params.dataIndex], cell.across, Math.max(slot - 1.5, slot * 0.8), shift, colours[along.colours[cell.along]]);
      },
    }],
  };
}

// Throughput along the one factor at a level of the other; grey: the other levels.
function progress(level, element) {
  const { across, along, others, cells } = data.pair;
  const series = [];
  for (let other = 0; other < others.length; other += 1) {
    for (let n = 0; n < across.levels.length; n += 1) {
      const of = cells.filter((cell) => cell.other === other && cell.across === n).sort((a, b) => a.along - b.along);
      const isShown = n === level;
      if (!of.length || (!isShown && others.length > 1)) continue;
      const colour = isShown ? colours[others[other][1]] : colours.line;
      series.push({
        type: 'line', name: others[other][0], z: isShown ? 3 : 1, silent: !isShown, color: colour, symbol: isShown ? 'circle' : 'none',
        symbolSize: 6, lineStyle: { width: isShown ? 2 : 1 }, data: withMarks(of.map((cell) => [cell.along, cell.tps])),
        tooltip: { formatter: (p) => caseTip(caseOf(of[p.dataIndex])) },
      });
    }
  }
  if (others.length > 1) keys(element, others.map(([name, colour]) => ({ name, colour: colours[colour] })));
  const words = cells.filter((cell) => cell.across === level).map((cell) => `${caseOf(cell).label}: ${significant(cell.tps)} tps`);
  return {
    ...frame(`Median throughput of ${across.levels[level]} ${across.title} by ${along.title}. ${words.join('; ')}.`),
    grid: { left: 62, right: 12, top: 14, bottom: 52 },
    xAxis: { ...levelAxis(), data: along.levels, name: along.title },
    yAxis: valueAxis({ min: 0, max: niceAbove(highest(cells.map((cell) => cell.tps))) }), series,
  };
}

// Places for names next to points so that none covers another or a point: above at the right, off a line that goes on there,
// then around the point, or none.
function nextTo(points, width, height, box) {
  const taken = points.map(({ x, y }) => [x - 5, y - 5, x + 5, y + 5]);
  const covers = (a) => taken.some((b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]);
  return points.map(({ x, y, name }) => {
    const w = width(name), h = height;
    const found = [
      [x + 7, y - h - 4], [x + 9, y - h / 2], [x - 9 - w, y - h / 2], [x - w / 2, y - 9 - h], [x - w / 2, y + 9], [x + 7, y + 4],
    ].map(([left, top]) => [left, top, left + w, top + h]).find((a) => a[0] >= box.x && a[2] <= box.x + box.width && a[1] >= box.y && a[3] <= box.y + box.height && !covers(a));
    if (found) taken.push(found);
    return found ?? null;
  });
}

function priceChart() {
  const { currency } = data.prices;
  const points = [...data.prices.points].sort((a, b) => a.price - b.price || a.tps - b.tps);
  const best = points.filter((p) => p.efficient);
  const top = niceAbove(highest(points.map((p) => (p.range ? p.range[1] : p.tps))));
  const far = niceAbove(highest(points.map((p) => p.price)));
  const words = points.map((p) => `${p.label}: ${significant(p.tps)} tps for ${plain(p.price)} ${currency}${p.efficient ? ', efficient' : ''}`);
  return {
    ...frame(`Throughput against price of an hour. ${words.join('; ')}.`),
    grid: { left: 62, right: 16, top: 14, bottom: 52 },
    xAxis: valueAxis({ min: 0, max: far, name: `${currency} an hour`, nameLocation: 'middle', nameGap: 30, nameTextStyle: { ...label(), fontSize: 13 }, axisLine: { lineStyle: { color: colours.line } } }),
    yAxis: valueAxis({ min: 0, max: top }),
    series: [
      // The frontier is a staircase: until the next price nothing gives more.
      { type: 'line', step: 'end', silent: true, symbol: 'none', z: 1, color: colours.muted, lineStyle: { width: 1.5, type: 'dashed' }, data: [...best.map((p) => [p.price, p.tps]), ...(best.length ? [[far, best[best.length - 1].tps]] : [])] },
      {
        type: 'custom', z: 3, data: points.map((p) => [p.price, p.tps]), encode: { x: 0, y: 1 },
        tooltip: {
          formatter: (p) => {
            const item = points[p.dataIndex];
            const rows = [`${significant(item.tps)} tps`, `${plain(item.price)} ${currency} an hour`];
            if (item.per_million !== null) rows.push(`${significant(item.per_million)} ${currency} a million transactions`);
            if (item.efficient) rows.push('efficient: nothing gives more for less');
            return lines(item.label, rows);
          },
        },
        renderItem: (params, api) => {
          const at = (p) => api.coord([p.price, p.tps]);
          const pixels = points.map((p) => { const [x, y] = at(p); return { x, y, name: p.label }; });
          const { x, y, width, height } = params.coordSys;
          // Efficient ones have the first choice of places.
          const order = [...points.keys()].sort((a, b) => Number(points[b].efficient) - Number(points[a].efficient));
          const found = nextTo(order.map((i) => pixels[i]), (name) => name.length * 6.6 + 4, 15, { x, y, width, height });
          const place = found[order.indexOf(params.dataIndex)];
          const item = points[params.dataIndex], pixel = pixels[params.dataIndex];
          const colour = colours[item.colour];
          const children = [{
            type: 'circle', shape: { cx: pixel.x, cy: pixel.y, r: item.efficient ? 6 : 4 },
            style: item.efficient ? { fill: colour, stroke: colours.page, lineWidth: 1 } : { fill: colours.page, stroke: colour, lineWidth: 2 },
          }];
          if (place) {
            children.push({ type: 'text', silent: true, style: { text: item.label, x: place[0] + 2, y: place[1] + 1, fill: item.efficient ? colours.text : colours.muted, font: `${item.efficient ? 600 : 400} 12px ${fontFamily}` } });
          }
          return { type: 'group', children };
        },
      },
    ],
  };
}
