// Accuracy of the answers that are accepted, against the share of rows that is accepted.
function showRisk() {
  const { risk } = contents;
  const [low] = range(BOTH.flatMap((when) => risk[when].accuracy), { from: 0 });
  const texts = (when) => risk[when].coverage.map((share, k) => [
    `<b>${when} calibration</b>`,
    `accept ${percent(share, 0)} of the rows: ${percent(risk[when].accuracy[k])} right`,
    `confidence at least ${percent(risk[when].threshold[k])}`,
  ].join('<br>'));
  const hover = { before: texts('before'), after: texts('after') };
  addFigure('risk-plot', 'single', (palette) => ({
    data: BOTH.map((when) => ({
      type: 'scatter', mode: 'lines', x: risk[when].coverage, y: risk[when].accuracy, text: hover[when], hoverinfo: 'text',
      line: { color: palette[when], width: 2.5, dash: when === 'before' ? 'dash' : 'solid' },
    })),
    layout: {
      xaxis: axis(palette, 'share of rows that is accepted', { range: [0, 1.01], tickformat: '.0%', dtick: 0.2 }),
      yaxis: axis(palette, 'accuracy of these', { range: [low, 1.005], tickformat: '.0%', nticks: 7 }),
    },
  }), () => 'Accuracy of accepted answers against the share of rows accepted, before and after calibration. ' +
    'The table below has the shares for some accuracies.');

  // A share of 0 means that no confidence is high enough.
  const share = (x) => (!x ? 'none' : x < 0.0005 ? '< 0.1%' : percent(x));
  const columns = [
    { label: 'To be right', cell: (row) => percent(row.accuracy, row.accuracy * 100 % 1 ? 1 : 0) },
    { label: 'Accept before', cell: (row) => share(row.before) },
    { label: 'Accept after', cell: (row) => share(row.after) },
    { label: 'From confidence', cell: (row) => (row.after ? percent(row.threshold) : DASH) },
  ];
  return new SortableTable(byId('risk-table'), {
    caption: 'Share of rows that can be accepted at an accuracy', columns, search: false, rows: risk.targets,
  });
}
