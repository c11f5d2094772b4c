// Draws the charts of a report (ops/report/model.py, Chart) with uPlot 1.6.32 (ops/report/uplot).
(() => {
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  const size = (bytes) => {
    const power = Math.min(Math.floor(Math.log2(bytes) / 10 + 1e-9), 4);
    return `${+(bytes / 1024 ** power).toFixed(1)} ${UNITS[power]}`;
  };
  const figure = (value) => (value == null ? "–" : String(+value.toPrecision(4)));
  const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  const minute = (seconds) => day(seconds).slice(11);
  const COLOURS = ["#2a78d6", "#e07b00", "#1a9e60", "#b8409a", "#c33", "#7a6ff0", "#8a8a00", "#0899a8"];
  const dashed = (stroke) => ({ stroke, width: 2, dash: [6, 4] });

  // Each kind: the range of x, what x is called, and the series; the first series is measured, the others are limits.
  const KINDS = {
    sizes: { scale: { time: false, distr: 3, log: 2 }, x: size },
    times: { scale: { time: false }, x: day, all: true },
    recent: { scale: { time: false }, x: minute, all: true, zero: true },
    bars: { scale: { time: false, range: (u, low, high) => [low - 0.6, high + 0.6] }, x: null },
  };

  function colour(value, usual) {
    if (value == null) return "#d0d";
    const good = Math.max(0, Math.min(1, (value / usual - 0.8) / 0.2));
    return `hsl(${Math.round(20 + good * 190)} 75% 48%)`;
  }

  function lines(chart, options) {
    const kind = KINDS[chart.kind];
    const label = kind.x || ((index) => chart.labels[Math.round(index)] ?? "");
    const bars = chart.kind === "bars";
    const series = chart.series.map((name, index) => {
      const measured = kind.all || index === 0;
      const stroke = COLOURS[index % COLOURS.length];
      const style = measured ? { stroke, width: 2 } : dashed(index === 1 ? "#c33" : "#888");
      const drawn = bars && measured ? { fill: `${stroke}99`, paths: uPlot.paths.bars({ size: [0.7, 60] }) } : {};
      const points = { show: !(bars && measured) && !kind.zero, size: measured ? 5 : 9, fill: style.stroke };
      return { ...style, ...drawn, points, spanGaps: !kind.zero, label: name, value: (u, value) => figure(value) };
    });
    const columns = chart.series.map((_, index) => chart.points.map((row) => row[index + 1]));
    const axis = { values: (u, splits) => splits.map((value) => (value == null ? "" : label(value))) };
    if (bars) {
      const step = Math.ceil(chart.labels.length / Math.max(1, Math.floor(options.width / 26)));
      const rotated = chart.labels.length > 4;
      axis.splits = () => chart.labels.map((_, index) => index).filter((index) => index % step === 0);
      axis.rotate = rotated ? -60 : 0;
      axis.size = rotated ? 24 + 5.5 * Math.min(24, Math.max(...chart.labels.map((name) => name.length))) : 40;
      options.height += axis.size - 40;
    } else {
      axis.space = chart.kind === "times" ? 120 : kind.zero ? 80 : 60;
      if (kind.zero) axis.incrs = [60, 120, 300, 600, 900, 1800, 3600];
    }
    options.axes[0] = { ...options.axes[0], ...axis };
    return {
      ...options,
      scales: { x: kind.scale, y: { range: (u, low, high) => [kind.all && !kind.zero ? low * 0.95 : 0, (high || 1) * (kind.all ? 1.05 : 1.1)] } },
      series: [{ label: bars ? "where" : chart.kind === "sizes" ? "size" : "when", value: (u, v) => (v == null ? "–" : label(v)) }, ...series],
      data: [chart.points.map((row) => row[0]), ...columns],
    };
  }

  // A cell for each measured pair, on both sides of the diagonal.
  function matrix(chart, options) {
    const count = chart.labels.length, usual = chart.usual || 1;
    const found = new Map();
    for (const [one, other, value] of chart.points) {
      const before = found.get(`${one},${other}`);
      const best = value == null ? (before ?? null) : Math.max(value, before ?? 0);
      found.set(`${one},${other}`, best).set(`${other},${one}`, best);
    }
    const at = (u) => [u.posToVal(u.cursor.left, "x"), u.posToVal(u.cursor.top, "y")].map(Math.round);
    const axis = {
      values: (u, splits) => splits.map((index) => chart.labels[index] ?? ""),
      splits: () => {
        const step = Math.ceil(count / 12);
        return chart.labels.map((_, index) => index).filter((index) => index % step === 0);
      },
    };
    const room = 20 + 6 * Math.min(20, Math.max(...chart.labels.map((name) => name.length)));
    const scale = (turned) => ({ time: false, range: () => [-0.5, count - 0.5], dir: turned ? -1 : 1 });
    options.axes = [
      { ...options.axes[0], ...axis, rotate: -60, size: room },
      { ...options.axes[1], ...axis, size: room },
    ];
    const hint = options.hint;
    const legend = `Blue: ${figure(usual)} ${chart.unit}, as usual; orange: 20 % below or more; pink: no answer; empty: not measured.`;
    hint.textContent = legend;
    return {
      ...options,
      height: Math.min(options.width, 520),
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false } },
      scales: { x: scale(false), y: scale(true) },
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(u) => {
          const side = (name) => Math.abs(u.valToPos(1, name, true) - u.valToPos(0, name, true));
          const [wide, high] = [side("x"), side("y")];
          for (const [key, value] of found) {
            const [one, other] = key.split(",").map(Number);
            u.ctx.fillStyle = colour(value, usual);
            u.ctx.fillRect(u.valToPos(one, "x", true) - wide / 2, u.valToPos(other, "y", true) - high / 2, wide - 0.5, high - 0.5);
          }
        }],
        setCursor: [(u) => {
          const [one, other] = at(u);
          const key = `${one},${other}`;
          const value = found.get(key);
          const said = value === undefined ? "not measured" : value === null ? "no answer" : `${figure(value)} ${chart.unit}`;
          hint.textContent = chart.labels[one] && chart.labels[other] ? `${chart.labels[one]} – ${chart.labels[other]}: ${said}` : legend;
        }],
      },
      data: [[0, count - 1], [0, count - 1]],
    };
  }

  const charts = JSON.parse(document.getElementById("charts").textContent);
  const places = [...document.querySelectorAll("figure .chart")];
  function drawAll() {
    const text = getComputedStyle(document.body).color;
    places.forEach((place, index) => {
      const chart = charts[index];
      place.textContent = "";
      const axis = () => ({ stroke: text, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" } });
      const hint = place.parentElement.querySelector(".hint");
      const options = { width: place.clientWidth, height: 260, axes: [axis(), { ...axis(), size: 60 }], hint };
      const { data, ...made } = (chart.kind === "matrix" ? matrix : lines)(chart, options);
      new uPlot(made, data, place);
    });
  }
  let waiting;
  const redraw = () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 100); };
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);
})();
