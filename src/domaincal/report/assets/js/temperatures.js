// Temperatures that the labels of a domain ask for, against those that the method predicted.
function showTemperatures() {
  const { learned, error, predicted, low, high } = domains.temperature;
  const from = (values, k) => (known(values) && known(values[k]) ? values[k] : null);
  const up = learned.map((t, k) => (known(t) && known(from(error, k)) ? t * Math.exp(error[k]) : t));
  const down = learned.map((t, k) => (known(t) && known(from(error, k)) ? t * Math.exp(-error[k]) : t));
  const most = predicted.map((t, k) => from(high, k) ?? t);
  const least = predicted.map((t, k) => from(low, k) ?? t);
  const texts = domains.name.map((name, k) => pointText(name, [
    `predicted ${decimal(predicted[k])}` + (known(from(low, k)) ? ` (rows: ${decimal(low[k])} to ${decimal(high[k])})` : ''),
    `learned ${decimal(learned[k])}`,
    `${plural(domains.n[k], 'row')}, ${domains.kind[k]} domain`,
  ]));
  const shown = predicted.map((t, k) => known(t) && known(learned[k]));
  const values = [up, down, most, least].flatMap((list) => list.filter((t, k) => shown[k] && t > 0)).map(Math.log10);
  const ends = range(values);
  const ticks = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50, 100]
    .filter((t) => Math.log10(t) >= ends[0] && Math.log10(t) <= ends[1]);
  const ticked = ticks.length >= 2 ? { tickvals: ticks, ticktext: ticks.map(String) } : { nticks: 4 };
  const differences = (values, other) => values.map((t, k) => Math.abs(t - other[k]));
  byId('temperatures-plot').names = domains.name;
  addFigure('temperatures-plot', 'single', (palette, width) => {
    const bars = domains.name.length <= 300 || choice.name !== null;
    return {
      data: pointTraces(palette, 'after', {
        x: predicted, y: learned, names: domains.name, texts, kinds: domains.kind,
        error_x: bars ? { plus: differences(most, predicted), minus: differences(least, predicted) } : null,
        error_y: bars ? { plus: differences(up, learned), minus: differences(down, learned) } : null,
      }),
      layout: {
        height: Math.min(width, 520),
        shapes: [diagonal(palette, 10 ** ends[0], 10 ** ends[1], predicted.length)],
        xaxis: axis(palette, 'predicted temperature', { type: 'log', range: ends, ...ticked }),
        yaxis: axis(palette, 'learned from its labels', { type: 'log', range: ends, ...ticked }),
      },
    };
  }, () => {
    const k = domainIndex.get(choice.name);
    const words = 'Temperatures that labels ask for against predicted temperatures';
    return choice.name === null ? `${words}, ${plural(domains.name.length, 'point')}. The numbers are in the table of domains.`
      : k === undefined ? `${words}; the chosen domain has no labels.`
      : `${words} in ${plain(choice.name)}: learned ${decimal(learned[k])}, predicted ${decimal(predicted[k])}.`;
  });
}
