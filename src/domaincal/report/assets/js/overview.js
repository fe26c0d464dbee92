// Accuracy against mean confidence, a point for each domain.
function showOverview() {
  const both = ['before', 'after'];
  const [low, high] = range([...domains.accuracy, ...both.flatMap((when) => domains[when].confidence)], { from: 0, to: 1.01 });
  for (const when of both) {
    const { confidence, ece } = domains[when];
    const texts = domains.name.map((name, k) => pointText(name, [
      `accuracy ${percent(domains.accuracy[k])}, mean confidence ${percent(confidence[k])}`,
      `calibration error (ECE) ${points(ece[k])} points`,
      `${plural(domains.n[k], 'row')}, ${domains.kind[k]} domain`,
    ]));
    byId(`overview-${when}`).names = domains.name;
    addFigure(`overview-${when}`, 'pair', (palette, width) => ({
      data: pointTraces(palette, when, {
        x: confidence, y: domains.accuracy, names: domains.name, texts, kinds: domains.kind,
      }),
      layout: {
        height: Math.min(width, 520),
        shapes: [diagonal(palette, low, high, confidence.length)],
        xaxis: axis(palette, 'mean confidence', { range: [low, high], tickformat: '.0%', nticks: 7 }),
        yaxis: axis(palette, 'accuracy', { range: [low, high], tickformat: '.0%', nticks: 7 }),
      },
    }), () => describeOverview(when));
  }
}

function describeOverview(when) {
  const words = `Accuracy against mean confidence ${when} calibration`;
  const k = domainIndex.get(choice.name);
  if (choice.name !== null) {
    return k === undefined ? `${words}; the chosen domain has no labels.`
      : `${words} in ${plain(choice.name)}: accuracy ${percent(domains.accuracy[k])}, mean confidence ${percent(domains[when].confidence[k])}.`;
  }
  const means = ['unseen', 'known'].filter((kind) => contents.means && contents.means[kind]).map((kind) => {
    const mean = contents.means[kind];
    return ` The average ${kind} domain has accuracy ${percent(mean.accuracy)} and mean confidence ${percent(mean[when].confidence)}.`;
  });
  return `${words}, ${plural(domains.name.length, 'point')}.${means.join('')} The numbers are in the table of domains.`;
}
