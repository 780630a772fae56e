"use strict";
// Plots of a flow, packet by packet. Layers give paths in pixels, which are drawn on the canvas and saved as SVG alike.
(() => {
const {style, bytes, saveAs, svgFile, number, timeUnit, xml} = window.knee;

const SPECIAL = [
  ["fast retransmission", "k20", "triangle"], ["RTO", "no", "cross"], ["after an RTO", "k28", "square"],
  ["tail loss probe", "k24", "diamond"], ["unclear retransmission", "k40", "triangle"], ["late", "k44", "circle"],
];
const CE = 16, ECHOED = 32, SPURIOUS = 64;

// Marks of about eight pixels.
const MARKS = {
  circle: (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z`,
  dot: (x, y) => `M${x - 1.6} ${y}a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0z`,
  ring: (x, y) => `M${x - 6} ${y}a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z`,
  square: (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
  triangle: (x, y) => `M${x} ${y - 5}l4.6 8h-9.2z`,
  diamond: (x, y) => `M${x} ${y - 5}l4.5 5l-4.5 5l-4.5 -5z`,
  cross: (x, y) => `M${x - 4.5} ${y - 4.5}l9 9M${x + 4.5} ${y - 4.5}l-9 9`,
};
const HOLLOW = new Set(["ring", "cross"]);

function read(root) {
  const raw = JSON.parse(root.querySelector("script").textContent);
  const doubles = text => new Float64Array(bytes(text)), floats = text => new Float32Array(bytes(text));
  const octets = text => new Uint8Array(bytes(text));
  const {data, acks, sacks, rounds} = raw;
  return {
    begin: raw.begin, end: raw.end,
    data: {t: doubles(data.t), number: doubles(data.number), seq: doubles(data.seq), len: floats(data.len), inflight: floats(data.inflight),
      rtt: floats(data.rtt), by: doubles(data.by), flags: octets(data.flags)},
    acks: {t: doubles(acks.t), number: doubles(acks.number), ack: doubles(acks.ack), ece: octets(acks.ece)},
    sacks: {t: doubles(sacks.t), from: doubles(sacks.from), to: doubles(sacks.to)},
    rounds: {t: doubles(rounds.t), end: doubles(rounds.end), inflight: floats(rounds.inflight), window: floats(rounds.window),
      rate: floats(rounds.rate), marked: floats(rounds.marked), least: floats(rounds.least), mean: floats(rounds.mean)},
  };
}

// The first place whose time is not before t.
function place(times, t) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1; else high = middle;
  }
  return low;
}

// Places within a view, and for lines one more on either side.
function within(times, view, more = 0) {
  return [Math.max(0, place(times, view.from) - more), Math.min(times.length, place(times, view.to) + more)];
}

// ---- layers: {name, k, ends(view) -> [least, largest], paths(view) -> [{d, fill, width}]} ----

function spread(times, low, high, more = 0) {
  return view => {
    const [first, end] = within(times, view, more);
    let least = Infinity, largest = -Infinity;
    for (let i = first; i < end; i++) {
      const a = low(i), b = high(i);
      if (a < least) least = a;
      if (b > largest) largest = b;
    }
    return [least, largest];
  };
}

const r = v => Math.round(v * 10) / 10;

// Vertical bars from one value to another; of each column of pixels one bar where there are many.
function bars(name, k, times, low, high, width) {
  return {name, k, count: times.length, ends: spread(times, low, high), paths(view) {
    const [first, end] = within(times, view);
    let d = "", dots = "";
    const few = end - first <= view.wide / 5;
    if (end - first <= 2 * view.wide) {
      for (let i = first; i < end; i++) {
        const x = r(view.px(times[i])), y = view.py(low(i)), top = view.py(high(i));
        d += `M${x} ${r(y)}V${r(Math.min(top, y - 1))}`;
        if (few) dots += MARKS.dot(x, r((y + top) / 2));
      }
    } else {
      let column = -1, least = 0, largest = 0;
      const put = () => { if (column >= 0) d += `M${column} ${r(view.py(least))}V${r(Math.min(view.py(largest), view.py(least) - 1))}`; };
      for (let i = first; i < end; i++) {
        const x = Math.round(view.px(times[i]));
        if (x !== column) { put(); column = x; least = Infinity; largest = -Infinity; }
        least = Math.min(least, low(i));
        largest = Math.max(largest, high(i));
      }
      put();
    }
    return [{d, width: few ? 2 : width}, {d: dots, fill: true}];
  }};
}

// Marks at points, one for each pixel at most.
function marks(name, k, shape, times, value, is) {
  const at = [];
  for (let i = 0; i < times.length; i++) if (is(i) && !Number.isNaN(value(i))) at.push(i);
  const mine = Float64Array.from(at, i => times[i]);
  const small = shape === "dot";
  return {name, k, shape, count: at.length, ends: spread(mine, i => value(at[i]), i => value(at[i])), paths(view) {
    const [first, end] = within(mine, view), seen = new Set();
    const step = end - first > 3000 ? 2 : 1;
    const mark = small && end - first <= view.wide / 4 ? MARKS.circle : MARKS[shape];
    let d = "";
    for (let i = first; i < end; i++) {
      const x = view.px(mine[i]), y = view.py(value(at[i]));
      const key = Math.round(x / step) * 65536 + Math.round(y / step);
      if (seen.has(key)) continue;
      seen.add(key);
      d += small && end - first > 3000 ? `M${r(x - 1)} ${r(y - 1)}h2v2h-2z` : mark(r(x), r(y));
    }
    return [{d, fill: !HOLLOW.has(shape), width: 1.6}];
  }};
}

const known = (times, value) => times.reduce((sum, t, i) => sum + !Number.isNaN(value(i)), 0);

// A line that stays until the next value.
function steps(name, k, times, value, until, dash) {
  return {name, k, dash, count: known(times, value), ends: spread(times, value, value, 1), paths(view) {
    const [first, end] = within(times, view, 1);
    let d = "", x = null, last = null;
    for (let i = first; i < end; i++) {
      const v = value(i);
      if (Number.isNaN(v)) { last = null; continue; }
      const next = view.px(times[i]), y = r(view.py(v));
      if (last === null) d += `M${r(next)} ${y}`;
      else if (y === last && i + 1 < end) continue;
      else d += `H${r(next)}V${y}`;
      last = y;
      x = until ? view.px(until(i)) : null;
      if (until && (i + 1 === end || times[i + 1] > until(i) * 1.0001 + 1)) { d += `H${r(x)}`; last = null; }
    }
    return [{d, width: 1.4, dash}];
  }};
}

function scaled(largest, ...steps) {
  return steps.find(([from]) => largest >= from) || steps[steps.length - 1];
}

const most = values => values.reduce((a, b) => b > a ? b : a, 0);

// The plots of a flow.
function plots(flow) {
  const {data, acks, sacks, rounds} = flow, all = () => true;
  const out = [], until = i => rounds.end[i];
  const bytesOf = largest => scaled(largest, [1e6, "MB", 1e-6], [1e3, "kB", 1e-3], [0, "B", 1]);
  const timeOf = largest => scaled(largest, [2e9, "s", 1e-9], [2e6, "ms", 1e-6], [0, "us", 1e-3]);
  const top = i => data.seq[i] + data.len[i];
  if (data.t.length) {
    const [, unit, factor] = bytesOf(most(data.seq));
    const middle = i => data.seq[i] + data.len[i] / 2;
    const special = SPECIAL.map(([name, k, shape], i) => marks(name, k, shape, data.t, middle, j => (data.flags[j] & 15) === i + 1));
    out.push({title: "Sequence numbers", unit, factor, high: 340, has: "packets", layers: [
      bars("data", "k0", data.t, i => data.seq[i], top, 1.4),
      bars("SACK", "k12", sacks.t, i => sacks.from[i], i => sacks.to[i], 1),
      steps("ACK", "k8", acks.t, i => acks.ack[i]),
      marks("ACK with ECE", "k4", "dot", acks.t, i => acks.ack[i], i => acks.ece[i]),
      marks("data marked CE", "k4", "circle", data.t, middle, i => data.flags[i] & CE),
      ...special,
      marks("spurious", "un", "ring", data.t, middle, i => data.flags[i] & SPURIOUS),
    ]});
    const rtts = most([...rounds.mean, ...data.rtt].filter(v => !Number.isNaN(v)));
    const [, rttUnit, rttFactor] = timeOf(rtts);
    const marked = i => data.flags[i] & (CE | ECHOED);
    out.push({title: "RTT", unit: rttUnit, factor: rttFactor, high: 220, has: "packets", zero: true, layers: [
      marks("by sequence", "k0", "dot", data.t, i => data.rtt[i], i => !marked(i)),
      marks("by sequence, marked", "k4", "dot", data.t, i => data.rtt[i], marked),
      steps("by timestamps, mean of a round trip", "k24", rounds.t, i => rounds.mean[i], until),
      steps("by timestamps, least", "k24", rounds.t, i => rounds.least[i], until, "2 2.5"),
    ]});
  } else if (rounds.mean.some(v => !Number.isNaN(v))) {
    const [, unit, factor] = timeOf(most(rounds.mean));
    out.push({title: "RTT", unit, factor, high: 200, zero: true, layers: [
      steps("by timestamps, mean of a round trip", "k24", rounds.t, i => rounds.mean[i], until),
      steps("by timestamps, least", "k24", rounds.t, i => rounds.least[i], until, "2 2.5"),
    ]});
  }
  const inflights = most([...rounds.inflight, ...data.inflight]), [, unit, factor] = bytesOf(inflights);
  // A window far above says only that it does not limit.
  const near = i => rounds.window[i] <= 2 * inflights ? rounds.window[i] : NaN;
  out.push({title: "In flight", unit, factor, high: 190, has: "packets", zero: true, layers: [
    marks("after each packet", "k0", "dot", data.t, i => data.inflight[i], all),
    steps("most of a round trip", "k8", rounds.t, i => rounds.inflight[i], until),
    steps("receiver's window", "no", rounds.t, near, until, "6 3"),
  ]});
  const [, rateUnit, rateFactor] = scaled(most(rounds.rate), [1e9, "Gbps", 1e-9], [1e6, "Mbps", 1e-6], [0, "kbps", 1e-3]);
  out.push({title: "Rate of each round trip", unit: rateUnit, factor: rateFactor, high: 160, zero: true,
    layers: [steps("acknowledged", "k0", rounds.t, i => rounds.rate[i], until)]});
  if (rounds.marked.some(v => v > 0)) out.push({title: "Marked share of each round trip", unit: "%", factor: 100, high: 140, zero: true,
    layers: [steps("marked", "k4", rounds.t, i => rounds.marked[i], until)]});
  out.forEach(plot => plot.layers = plot.layers.filter(layer => layer.count));
  return out.filter(plot => plot.layers.length);
}

// ---- a flow on the page ----

const colour = k => style("--" + k);

// Ticks with the digits by which they differ.
function ticks(values) {
  const step = values.length > 1 ? values[1] - values[0] : 1;
  let digits = 0;
  while (digits < 9 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-4) digits++;
  return values.map(v => v.toFixed(digits));
}

function key(layer) {
  const d = layer.shape ? MARKS[layer.shape === "dot" ? "circle" : layer.shape](9, 7) : "M0 7h18";
  const fill = layer.shape && !HOLLOW.has(layer.shape);
  return `<span class="key"><svg width="18" height="14" class="${layer.k}" aria-hidden="true"><path d="${d}" ` +
    `${fill ? 'fill="currentColor"' : `fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="${layer.dash || ""}"`}/></svg> ${xml(layer.name)}</span>`;
}

function describe(flow, i, clock) {
  const {data} = flow, kind = data.flags[i] & 15, parts = [`packet ${data.number[i]}`, clock(data.t[i])];
  parts.push(`bytes ${data.seq[i]} to ${data.seq[i] + data.len[i] - 1} (${data.len[i]})`);
  if (!Number.isNaN(data.inflight[i])) parts.push(`${data.inflight[i]} bytes in flight`);
  if (!Number.isNaN(data.rtt[i])) parts.push(`RTT ${number(data.rtt[i] / 1e3)} us`);
  if (data.by[i]) parts.push(`acknowledged by packet ${data.by[i]}`);
  if (kind) parts.push(SPECIAL[kind - 1][0]);
  if (data.flags[i] & CE) parts.push("CE");
  if (data.flags[i] & ECHOED) parts.push("acknowledged with ECE");
  if (data.flags[i] & SPURIOUS) parts.push("spurious");
  return parts.join(" · ");
}

function table(plot, flow, view) {
  const {data, rounds} = flow;
  if (plot.has && data.t.length) {
    let out = "number,at_ns,seq,len,inflight_bytes,rtt_ns,acked_by,kind,ce,echoed,spurious\n";
    const [first, end] = within(data.t, view), or = v => Number.isNaN(v) ? "" : v;
    for (let i = first; i < end; i++) {
      const f = data.flags[i], kind = f & 15;
      out += [data.number[i], data.t[i], data.seq[i], data.len[i], or(data.inflight[i]), or(data.rtt[i]), data.by[i] || "",
        kind ? SPECIAL[kind - 1][0] : "", f & CE ? 1 : 0, f & ECHOED ? 1 : 0, f & SPURIOUS ? 1 : 0].join(",") + "\n";
    }
    return out;
  }
  const names = Object.keys(rounds).filter(name => name !== "t");
  let out = ["begin_ns", ...names].join(",") + "\n";
  const [first, end] = within(rounds.t, view);
  for (let i = first; i < end; i++) out += [rounds.t[i], ...names.map(name => Number.isNaN(rounds[name][i]) ? "" : rounds[name][i])].join(",") + "\n";
  return out;
}

// What is visible of a plot, as SVG.
function traced(plot, u, unit, factor, title) {
  const left = 64, right = 1012, top = 10, bottom = top + plot.high, {x, y} = u.scales;
  const px = v => left + (v - x.min) / (x.max - x.min) * (right - left), py = v => bottom - (v - y.min) / (y.max - y.min) * (bottom - top);
  const view = viewOf(u, factor, plot, px, py, right - left);
  const axes = [u.axes[0]._splits || [], u.axes[1]._splits || []];
  let body = `<clipPath id="c"><path d="M${left} ${top - 4}H${right}V${bottom + 4}H${left}z"/></clipPath>`;
  ticks(axes[1]).forEach((text, i) => body += `<path class="g" d="M${left} ${r(py(axes[1][i]))}H${right}"/><text x="${left - 6}" y="${r(py(axes[1][i])) + 4}" text-anchor="end">${text}</text>`);
  ticks(axes[0]).forEach((text, i) => body += `<text x="${r(px(axes[0][i]))}" y="${bottom + 16}" text-anchor="middle">${text}</text>`);
  body += `<text class="m" x="2" y="${bottom + 16}">${unit}</text><g clip-path="url(#c)">`;
  for (const layer of plot.layers) for (const path of layer.paths(view)) if (path.d)
    body += `<path class="${layer.k}" d="${path.d}" ${path.fill ? 'fill="currentColor"' : `fill="none" stroke="currentColor" stroke-width="${path.width}" stroke-dasharray="${path.dash || ""}"`}/>`;
  body += "</g>";
  let at = left, row = bottom + 36;
  for (const layer of plot.layers) {
    const room = layer.name.length * 6.4 + 40;
    if (at + room > right && at > left) { at = left; row += 16; }
    body += `<path class="${layer.k}" d="${layer.shape ? MARKS[layer.shape](at + 9, row - 4) : `M${at} ${row - 4}h18`}" stroke="currentColor" fill="${layer.shape && !HOLLOW.has(layer.shape) ? "currentColor" : "none"}"/><text x="${at + 23}" y="${row}">${xml(layer.name)}</text>`;
    at += room;
  }
  return svgFile(title, [[[1020, row + 8, body]]]);
}

// A view in ns and the plot's own values, with functions to pixels.
function viewOf(u, factor, plot, px, py, wide) {
  return {from: u.scales.x.min / factor, to: u.scales.x.max / factor, wide, px: t => px(t * factor), py: v => py(v * plot.factor)};
}

function draw(root) {
  const flow = root.flow ||= read(root), holder = root.querySelector(".plots");
  const kept = root.plots?.length ? [root.plots[0].scales.x.min, root.plots[0].scales.x.max] : null;
  (root.plots || []).forEach(plot => plot.destroy());
  holder.textContent = "";
  // Of the last packet nothing is cut.
  const air = (flow.end - flow.begin) * 0.01 || 1000, [unit, perSecond] = timeUnit((flow.end + air) / 1e9), factor = perSecond / 1e9;
  const whole = {min: (flow.begin - air) * factor, max: (flow.end + air) * factor};
  const clock = t => `${+(t * factor).toFixed(6)} ${unit}`;
  const axis = {stroke: style("--soft"), grid: {stroke: style("--grid"), width: 1}, ticks: {stroke: style("--grid"), width: 1}, font: "11px system-ui, sans-serif"};
  root.whole = whole;
  root.zoom = (min, max) => {
    // Closer than a ns there is nothing.
    if (!(max - min > factor)) return;
    root.plots.forEach(plot => plot.batch(() => {
      plot.setScale("x", {min, max});
      plot.setScale("y", plot.fit({from: min / factor, to: max / factor}));
      plot.setSelect({width: 0, height: 0}, false);
    }));
  };
  root.plots = plots(flow).map(plot => {
    const frame = document.createElement("div");
    frame.className = "plot";
    frame.innerHTML = `<div class="bar"><h4>${plot.title}, ${plot.unit}</h4><span class="save">` +
      ["svg", "png", "csv"].map(kind => `<button type="button" data-save="${kind}">${kind.toUpperCase()}</button>`).join("") +
      `</span></div><div class="keys">${plot.layers.map(key).join("")}</div><div class="canvas"></div><p class="said hint" aria-live="off"></p>`;
    holder.append(frame);
    const said = frame.querySelector(".said");
    const fit = view => {
      let [least, largest] = plot.layers.reduce(([a, b], layer) => {
        const [low, high] = layer.ends(view);
        return [low < a ? low : a, high > b ? high : b];
      }, [Infinity, -Infinity]);
      if (least > largest) [least, largest] = [0, 1 / plot.factor];
      if (plot.zero) least = Math.min(0, least);
      const air = (largest - least) * 0.05 || Math.abs(largest) * 0.05 || 1;
      return {min: (plot.zero ? least : least - air) * plot.factor, max: (largest + air) * plot.factor};
    };
    const nearest = u => {
      const {left, top} = u.cursor;
      if (left == null || left < 0) return said.textContent = "";
      const t = u.posToVal(left, "x") / factor;
      if (plot.has && flow.data.t.length) {
        const {data} = flow, value = plot.title === "RTT" ? i => data.rtt[i] : plot.title === "In flight" ? i => data.inflight[i] : i => data.seq[i] + data.len[i] / 2;
        const [first, end] = within(data.t, {from: u.posToVal(left - 12, "x") / factor, to: u.posToVal(left + 12, "x") / factor});
        let best = -1, least = Infinity;
        for (let i = first; i < Math.min(end, first + 5000); i++) {
          const away = Math.hypot(u.valToPos(data.t[i] * factor, "x") - left, u.valToPos(value(i) * plot.factor, "y") - top);
          if (away < least) { least = away; best = i; }
        }
        return said.textContent = best < 0 ? clock(t) : describe(flow, best, clock);
      }
      const {rounds} = flow, i = place(rounds.t, t) - 1, of = plot.unit === "%" ? rounds.marked : plot.title === "RTT" ? rounds.mean : plot.title === "In flight" ? rounds.inflight : rounds.rate;
      said.textContent = i < 0 || t > rounds.end[i] ? clock(t) : `${clock(t)} · ${number(of[i] * plot.factor)} ${plot.unit}, round trip from ${clock(rounds.t[i])}`;
    };
    const u = new uPlot({
      width: Math.max(240, holder.clientWidth), height: plot.high, legend: {show: false},
      series: [{}, {points: {show: false}, paths: () => null}],
      cursor: {sync: {key: root.id, scales: ["x", null]}, drag: {x: true, y: false, setScale: false}, points: {show: false}},
      scales: {x: {time: false, auto: false, range: (u, low, high) => [low, high]}, y: {auto: false, range: (u, low, high) => [low, high]}},
      axes: [{...axis, size: 30, gap: 3, space: 96, values: (u, values) => ticks(values).map(text => text + " " + unit)}, {...axis, size: 64, values: (u, values) => ticks(values)}],
      hooks: {
        setSelect: [u => {
          const {left, width} = u.select;
          // Plots that share the cursor share what it selects: the first to tell is enough.
          if (width <= 2 || root.zooming) return;
          root.zooming = true;
          root.zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
          setTimeout(() => root.zooming = false);
        }],
        setCursor: [nearest],
        draw: [u => {
          const {ctx} = u, ratio = devicePixelRatio, {left, top, width, height} = u.bbox;
          const view = viewOf(u, factor, plot, v => u.valToPos(v, "x", true) / ratio, v => u.valToPos(v, "y", true) / ratio, width / ratio);
          ctx.save();
          ctx.beginPath();
          ctx.rect(left, top - 4, width, height + 8);
          ctx.clip();
          ctx.scale(ratio, ratio);
          for (const layer of plot.layers) for (const path of layer.paths(view)) {
            if (!path.d) continue;
            ctx.fillStyle = ctx.strokeStyle = colour(layer.k);
            ctx.lineWidth = path.width || 1;
            ctx.setLineDash(path.dash ? path.dash.split(" ").map(Number) : []);
            if (path.fill) ctx.fill(new Path2D(path.d)); else ctx.stroke(new Path2D(path.d));
          }
          if (root.pointed != null) {
            const x = view.px(root.pointed);
            ctx.strokeStyle = style("--ink");
            ctx.setLineDash([3, 3]);
            ctx.lineWidth = 1;
            ctx.stroke(new Path2D(`M${x} ${top / ratio}v${height / ratio}`));
          }
          ctx.restore();
        }],
      },
    }, [[whole.min, whole.max], [null, null]], frame.querySelector(".canvas"));
    u.fit = fit;
    u.over.addEventListener("dblclick", () => root.zoom(whole.min, whole.max));
    frame.querySelector(".save").addEventListener("click", event => {
      const kind = event.target.dataset.save, file = `${root.id}-${plot.title}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
      const view = {from: u.scales.x.min / factor, to: u.scales.x.max / factor};
      if (kind) saveAs(kind, file, () => traced(plot, u, unit, factor, `Flow ${root.dataset.flow}: ${plot.title}, ${plot.unit}`), () => table(plot, flow, view));
    });
    return u;
  });
  root.factor = factor;
  if (root.plots.length) root.zoom(...(kept || [whole.min, whole.max]));
}

function viewer(root) {
  if (root.plots) return;
  draw(root);
  root.querySelector(".zoom").addEventListener("click", event => {
    const does = event.target.dataset.zoom;
    if (!does || !root.plots.length) return;
    const {min, max} = root.plots[0].scales.x, span = max - min, middle = (min + max) / 2;
    const change = {whole: () => [root.whole.min, root.whole.max], in: () => [middle - span / 4, middle + span / 4],
      out: () => [middle - span, middle + span], earlier: () => [min - span / 2, max - span / 2], later: () => [min + span / 2, max + span / 2]};
    root.zoom(...change[does]());
  });
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    root.plots.forEach(plot => plot.setSize({width: Math.max(240, root.querySelector(".plots").clientWidth), height: plot.height}));
  }).observe(root);
}

// Shows a packet in the middle of some twenty.
function point(root, wanted) {
  viewer(root);
  const {data, acks} = root.flow;
  let at = data.number.indexOf(wanted), t = at >= 0 ? data.t[at] : null;
  if (t === null) {
    at = acks.number.indexOf(wanted);
    t = at >= 0 ? acks.t[at] : null;
  }
  if (t === null || !root.plots.length) return;
  const near = place(data.t, t), before = data.t[Math.max(0, near - 10)] ?? t, after = data.t[Math.min(data.t.length - 1, near + 10)] ?? t;
  const span = Math.max(after - before, 20000);
  root.pointed = t;
  root.zoom(Math.min(before, t) * root.factor - span * 0.05 * root.factor, Math.max(after, t) * root.factor + span * 0.05 * root.factor);
}

const roots = [...document.querySelectorAll(".capture")];
document.addEventListener("click", event => {
  const link = event.target.closest("a.packet"), root = link && document.getElementById("flow-" + link.dataset.flow);
  if (root) point(root, Number(link.dataset.number));
});
const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
  seen.unobserve(entry.target);
  viewer(entry.target);
}), {rootMargin: "600px"});
roots.forEach(root => seen.observe(root));
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => roots.forEach(root => root.plots && draw(root)));
addEventListener("beforeprint", () => roots.forEach(viewer));
})();
