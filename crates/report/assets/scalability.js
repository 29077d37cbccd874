// ---- throughput over clients, and the law that is fitted to it

function scalabilityCurves() {
  const curves = data.scalability;
  const colour = (i) => colours[`c${i % 8}`];
  const series = curves.flatMap(({ name, points, curve, peak }, i) => [
    {
      type: 'scatter', name, symbolSize: 9, z: 3, itemStyle: { color: colour(i) }, data: points,
      tooltip: { formatter: ({ value: [n, tps] }) => lines(name, [`${n} clients`, `median ${significant(tps)} tps`]) },
    },
    { type: 'line', silent: true, showSymbol: false, data: curve, lineStyle: { color: colour(i), width: 1.5 } },
    ...(peak && curve.length && peak[0] >= curve[0][0] && peak[0] <= curve[curve.length - 1][0] ? [{
      type: 'scatter', name, symbolSize: 14, z: 2, data: [peak],
      itemStyle: { color: 'transparent', borderColor: colour(i), borderWidth: 2 },
      tooltip: { formatter: ({ value: [n, tps] }) => lines(`${name}, peak of the law`, [`${significant(n)} clients`, `${significant(tps)} tps`]) },
    }] : []),
  ]);
  if (curves.length > 1) {
    const element = document.querySelector('[data-chart=usl]');
    keys(element, curves.map(({ name }, i) => ({ name, colour: colour(i) })));
  }
  const all = curves.flatMap(({ points, curve }) => [...points, ...curve]);
  const words = curves.map(({ name, peak }) => `${name}: ${peak ? `peak at ${significant(peak[0])} clients` : 'no peak'}`);
  const clients = [...new Set(curves.flatMap(({ points }) => points.map(([n]) => n)))].sort((a, b) => a - b);
  const x = logAxis(all.map(([n]) => n));
  x.axisLabel.customValues = clients;
  x.axisTick.customValues = clients;
  return {
    ...frame(`Median throughput over clients with the fitted scalability law. ${words.join('; ')}.`),
    grid: { left: 62, right: 20, top: 14, bottom: 52 },
    xAxis: {
      ...x, name: 'clients', nameLocation: 'middle', nameGap: 30, nameTextStyle: { ...label(), fontSize: 13 },
      min: Math.min(...all.map(([n]) => n)), max: Math.max(...all.map(([n]) => n)), splitLine: { show: false },
    },
    yAxis: valueAxis({ min: 0, max: niceAbove(highest(all.map(([, tps]) => tps))) }),
    series,
  };
}
