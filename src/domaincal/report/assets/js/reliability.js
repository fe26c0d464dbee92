// Reliability diagrams of all domains together or of one, with a histogram of confidences.
const FEW_ROWS = 10;
const BOTH = ['before', 'after'];

function showReliability() {
  const { reliability } = contents;
  const picker = byId('picker');
  const together = domains.kind.includes('unseen') ? 'all unseen domains together' : 'all domains together';
  const places = new Map(); // from a name to its place in the arrays
  reliability.domain.forEach((k, place) => places.has(domains.name[k]) || places.set(domains.name[k], place));
  const names = [...places.keys()].sort(collator.compare);
  picker.append(element('option', {}, together), ...names.map((name) => element('option', {}, shortened(plain(name), 60))));
  picker.addEventListener('change', () => choice.choose(picker.selectedIndex ? names[picker.selectedIndex - 1] : null));

  const bins = (when) => (places.has(choice.name) ? reliability[when][places.get(choice.name)] : reliability.all[when]);
  // Both histograms have one scale.
  const tallest = () => Math.max(...BOTH.map((when) => Math.max(0, ...bins(when).n) / sum(bins(when).n)));
  const subject = () => (places.has(choice.name) ? plain(choice.name) : together);
  const showChoice = () => {
    const other = choice.name !== null && !places.has(choice.name);
    picker.selectedIndex = other || choice.name === null ? 0 : 1 + names.indexOf(choice.name);
    const note = byId('reliability-note');
    note.hidden = !other;
    note.replaceChildren(...(other ? ['There is no diagram of ', nameText(choice.name),
      domainIndex.has(choice.name)
        ? `: the page holds those of the ${count(names.length)} domains with the largest error. It shows ${together}.`
        : `: it has no labels. The page shows ${together}.`] : []));
    showBins(bins, subject());
  };
  choice.onChange(showChoice);
  showChoice();

  for (const when of BOTH) {
    addFigure(`reliability-${when}`, 'pair',
      (palette, width) => reliabilityFigure(palette, width, palette[when], bins(when), reliability.edges, tallest()),
      () => `Reliability diagram ${when} calibration, ${subject()}: accuracy against confidence in ` +
        `${plural(bins(when).bin.length, 'bin')}, with intervals and the number of rows. The numbers are in the table below.`);
  }
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

function reliabilityFigure(palette, width, colour, bins, edges, tallest) {
  const total = sum(bins.n);
  const texts = bins.bin.map((b, k) => [
    `<b>confidence ${percent(edges[b], 0)} to ${percent(edges[b + 1], 0)}</b>`,
    `${percent(bins.accuracy[k])} of ${plural(bins.n[k], 'row')} are right`,
    `interval ${percent(bins.low[k])} to ${percent(bins.high[k])}`,
    `mean confidence ${percent(bins.confidence[k])}`,
  ].join('<br>'));
  const pick = (indices, values) => indices.map((k) => values[k]);
  const trace = (indices, opacity, mode) => ({
    type: 'scatter', mode, x: pick(indices, bins.confidence), y: pick(indices, bins.accuracy),
    text: pick(indices, texts), hoverinfo: 'text', opacity,
    line: { color: colour, width: 2 },
    marker: { color: colour, size: 8, line: { color: palette.paper, width: 1 } },
    error_y: { type: 'data', symmetric: false, color: colour, thickness: 1.5, width: 3,
      array: indices.map((k) => bins.high[k] - bins.accuracy[k]),
      arrayminus: indices.map((k) => bins.accuracy[k] - bins.low[k]) },
  });
  const all = bins.bin.map((_, k) => k);
  const data = [
    trace(all.filter((k) => bins.n[k] < FEW_ROWS), 0.35, 'markers'),
    trace(all.filter((k) => bins.n[k] >= FEW_ROWS), 1, 'lines+markers'),
    { type: 'bar', yaxis: 'y2', x: bins.bin.map((b) => (edges[b] + edges[b + 1]) / 2), y: bins.n.map((n) => n / total),
      width: bins.bin.map((b) => 0.92 * (edges[b + 1] - edges[b])), text: texts, textposition: 'none', hoverinfo: 'text',
      marker: { color: palette.muted, opacity: 0.55 } },
  ];
  return {
    data: data.filter((t) => t.x.length),
    layout: {
      height: Math.round(Math.min(1.18 * width, 600)),
      shapes: [diagonal(palette, 0, 1)],
      xaxis: axis(palette, 'confidence', { range: [0, 1.01], tickformat: '.0%', dtick: 0.2, anchor: 'y2' }),
      yaxis: axis(palette, 'accuracy', { range: [0, 1.02], tickformat: '.0%', domain: [0.27, 1] }),
      yaxis2: axis(palette, 'rows', { tickformat: '.0%', domain: [0, 0.19], nticks: 3, range: [0, 1.05 * tallest] }),
    },
  };
}

function showBins(bins, subject) {
  const { edges } = contents.reliability;
  const cells = (when) => new Map(bins(when).bin.map((b, k) => {
    const { n, confidence, accuracy, low, high } = bins(when);
    return [b, [count(n[k]), percent(confidence[k]), twoLines(percent(accuracy[k]), `${percent(low[k])} to ${percent(high[k])}`)]];
  }));
  const columns = BOTH.map(cells);
  const used = [...new Set(columns.flatMap((c) => [...c.keys()]))].sort((a, b) => a - b);
  const head = ['Confidence', ...BOTH.flatMap((when) => [`Rows ${when}`, `Mean confidence ${when}`, `Accuracy ${when}`])];
  byId('reliability-table').replaceChildren(
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Bins of the reliability diagrams' },
      element('table', {},
        element('caption', {}, `Bins of confidence, ${subject}`),
        element('thead', {}, element('tr', {}, ...head.map((label) => element('th', { scope: 'col' }, label)))),
        element('tbody', {}, ...used.map((b) => element('tr', {},
          element('th', { scope: 'row' }, `${percent(edges[b], 0)} to ${percent(edges[b + 1], 0)}`),
          ...columns.flatMap((c) => (c.get(b) || [DASH, DASH, DASH]).map((cell) => element('td', {}, ...[cell].flat())))))))));
}
