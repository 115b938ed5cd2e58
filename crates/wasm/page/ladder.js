// The packets of a request as a drawing: host on the left, device on the right, time running down.

const LADDER = { width: 800, row: 20, top: 30, host: 300, device: 640 };
/** Longest sequence of steps that is looked for as one that repeats. */
const REPEATED_MAX = 4;

const isPacket = (step) => step.who === "up" || step.who === "down";
const sameStep = (one, two) => one.who === two.who && one.what === two.what;

/** Steps with repetitions folded: a sequence of up to four steps that follows itself is drawn once, with its count. */
function folded(steps) {
  const rows = [];
  for (let at = 0; at < steps.length;) {
    const [length, count] = repetition(steps, at);
    for (let place = 0; place < length; place++) {
      const all = Array.from({ length: count }, (_, turn) => steps[at + turn * length + place]);
      const sum = (key) => (all[0][key] == null ? null : all.reduce((total, it) => total + it[key], 0));
      rows.push({ ...all[0], to_ns: all.at(-1).to_ns, packets: sum("packets"), wire_bytes: sum("wire_bytes"), count,
        each_ns: all.reduce((total, it) => total + it.to_ns - it.from_ns, 0) / count });
    }
    at += length * count;
  }
  return rows;
}

/** Length and count of what repeats from a step on: the sequence that covers most steps. */
function repetition(steps, at) {
  let best = [1, 1];
  for (let length = 1; length <= REPEATED_MAX; length++) {
    const repeats = (turn) => steps.slice(at, at + length).every((step, place) => {
      const other = steps[at + turn * length + place];
      return other && sameStep(step, other);
    });
    let count = 1;
    while (repeats(count)) count++;
    if (count > 1 && length * count > best[0] * best[1]) best = [length, count];
  }
  return best;
}

function stepText(step) {
  const each = step.count > 1 ? `, ${step.count} times` : "";
  const packets = step.packets > 1 ? ` ×${step.packets}` : "";
  const long = step.each_ns.toFixed(1);
  return isPacket(step) ? `${step.what}${packets}, ${step.wire_bytes} B (${long})${each}` : `${step.what} (${long})${each}`;
}

/** One row a step. */
function ladderRows(rows, colours, label) {
  const { row, top } = LADDER;
  const start = rows[0].from_ns;
  const drawn = rows.map((step, place) => {
    const y = top + place * row;
    return ladderTime(step.from_ns - start, y + 14) + ladderStep(step, colours, [y + 16, y + 16], y + 3, row - 5, y + 13).join("");
  });
  return ladderFrame(top + rows.length * row + 8, label, drawn.join(""));
}

/** Height in the drawing's units for the whole time, and the least distance of two texts. */
const SCALE = { height: 620, text: 14 };

/** Time to scale: a step is as high as it is long; texts that have no room move down, with a line to their place. */
function ladderToScale(rows, colours, label) {
  const start = rows[0].from_ns;
  const end = Math.max(...rows.map((step) => step.to_ns));
  const at = (ns) => LADDER.top + ((ns - start) / (end - start || 1)) * SCALE.height;
  const free = { host: 0, device: 0, link: 0, time: 0 };
  let bottom = at(end);
  const drawn = rows.map((step) => {
    const [from, to] = [at(step.from_ns), at(step.to_ns)];
    const column = isPacket(step) ? "link" : step.who === "host" ? "host" : "device";
    const wanted = (isPacket(step) ? (from + to) / 2 : Math.min((from + to) / 2, from + 10)) + 4;
    const text = Math.max(wanted, free[column]);
    free[column] = text + SCALE.text;
    bottom = Math.max(bottom, text);
    const time = from + 4 >= free.time ? ladderTime(step.from_ns - start, from + 4) : "";
    if (time) free.time = from + 4 + SCALE.text;
    const [shape, told] = ladderStep(step, colours, [from, to], from, Math.max(to - from, 1), text);
    return [time + shape, told];
  });
  // Texts stand above all lines.
  return ladderFrame(bottom + 12, label, drawn.map(([shape]) => shape).join("") + drawn.map(([, text]) => text).join(""));
}

const ladderTime = (ns, y) => `<text x="62" y="${y.toFixed(1)}" text-anchor="end">${ns.toFixed(1)}</text>`;

/** Shape of a step, and its text. */
function ladderStep(step, colours, [from, to], top, high, text) {
  const { host, device } = LADDER;
  const told = escaped(stepText(step));
  const title = `<title>${told}</title>`;
  if (isPacket(step)) {
    const [left, right] = step.who === "up" ? [device, host] : [host, device];
    const side = step.who === "up" ? 7 : -7;
    const dashed = step.what.startsWith("empty") ? ' stroke-dasharray="3 4"' : "";
    return [`<g data-step="${step.who}">${title}<line x1="${left}" x2="${right + side}" y1="${from.toFixed(1)}" y2="${to.toFixed(1)}"` +
      ` stroke="var(--packet)" stroke-width="1.5"${dashed}/><path d="M${right} ${to.toFixed(1)} l${side} -3.5 v7 Z" fill="var(--packet)"/></g>`,
      `<text class="main halo" x="${(host + device) / 2}" y="${(text - 1).toFixed(1)}" text-anchor="middle">${told}</text>`];
  }
  const at = step.who === "host" ? `x="${host - 12}" text-anchor="end"` : `x="${device + 12}"`;
  const edge = step.who === "host" ? host - 5 : device;
  return [`<g data-step="${step.who}">${title}<rect x="${edge}" y="${top.toFixed(1)}" width="5" height="${high.toFixed(1)}" fill="${colours[step.who]}"/></g>`,
    `<text class="main" ${at} y="${text.toFixed(1)}">${told}</text>`];
}

function ladderFrame(bottom, label, drawn) {
  const { width, top, host, device } = LADDER;
  const rail = (x, name, anchor) => `<line class="grid" x1="${x}" x2="${x}" y1="${top - 6}" y2="${bottom.toFixed(1)}"/>` +
    `<text x="${x}" y="14" text-anchor="${anchor}">${name}</text>`;
  return `<svg class="ladder" viewBox="0 0 ${width} ${Math.ceil(bottom)}" role="img" aria-label="${escaped(label)}">` +
    `<text x="62" y="14" text-anchor="end">ns</text>${rail(host, "host", "end")}${rail(device, "device", "start")}` +
    `<text x="${(host + device) / 2}" y="14" text-anchor="middle">link: packets, bytes on the wire (ns on the way)</text>${drawn}</svg>`;
}
