// The page: the settings, the questions that follow from them, and drawings of the answers.

const $ = (id) => document.getElementById(id);
const powers = (from, to) => Array.from({ length: Math.log2(to / from) + 1 }, (_, place) => from * 2 ** place);
const bytes = (size) => (size % 1024 ? `${size}` : `${size / 1024}k`);

/** Values of each slider, place by place, and their labels. */
const SLIDERS = {
  generation: { values: [1, 2, 3, 4, 5, 6], told: (it) => `gen${it}` },
  lanes: { values: [1, 2, 4, 8, 16, 32] },
  bs: { values: powers(512, 1 << 20), told: bytes },
  iodepth: { values: powers(1, 256) },
  numjobs: { values: [1, 2, 3, 4, 6, 8, 12, 16] },
  reads: { values: Array.from({ length: 21 }, (_, place) => 5 * place), told: (it) => `${it} %` },
  requests: { values: [1000, 2000, 5000, 10000, 20000, 50000, 100000], told: (it) => it.toLocaleString("en") },
};
/** Sliders of the drive, which show the drive's values until they are moved. */
const OF_DRIVE = ["generation", "lanes"];
const SECTIONS = ["media", "host", "stack"];
const USUAL = { bs: 4096, iodepth: 1, numjobs: 1, reads: 100, order: "rand", requests: 2000, seed: 1 };
const DEPTHS = powers(1, 256);
/** Longest time in ms that the page waits for an answer. */
const PATIENCE_MS = 20000;

/** Settings: absent keys have the drive's values, or the defaults. The address contains exactly these. */
let chosen = {};
let catalog, colourOf;
/** Drawn answers, and the time that they took. */
let shown = {};

// ---- the simulator, in a worker where there may be one ----

let desk;
/** Settled while no question is in flight. */
let before = Promise.resolve();

async function moduleBytes() {
  const packed = Uint8Array.from(atob($("module").textContent.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

function workerDesk(bytes) {
  const source = $("simulator-source").textContent +
    "let desk; onmessage = async ({ data }) => { desk ??= new Desk(data.bytes); if (data.question) postMessage(await desk.answer(data.question)); };";
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  worker.postMessage({ bytes });
  return {
    stop: () => worker.terminate(),
    answer: (question) => new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = reject;
      worker.postMessage({ question });
    }),
  };
}

/** Simulator in the page's own thread, which blocks the page while it simulates. */
function ownDesk(bytes) {
  const Desk = new Function(`${$("simulator-source").textContent}; return Desk;`)();
  const own = new Desk(bytes);
  return { stop() {}, answer: (question) => own.answer(question) };
}

/** The simulator of the server that this page comes from (`phaselink explore`). */
function servedDesk() {
  const given = new AbortController();
  return {
    stop: () => given.abort(),
    answer: async (question) => {
      try {
        const reply = await fetch("ask", { method: "POST", body: JSON.stringify(question), signal: given.signal });
        if (!reply.ok) return { problem: `The server says: ${(await reply.text()).trim()}` };
        const { answer, text } = await reply.json();
        return answer === undefined ? { problem: text } : { answer };
      } catch {
        return { problem: "The server is not there any more: phaselink explore starts it." };
      }
    },
  };
}

async function openDesk() {
  if (!$("module").textContent.trim()) return servedDesk();
  const bytes = await moduleBytes();
  try {
    const desk = workerDesk(bytes);
    await desk.answer({ verb: "catalog" });
    return desk;
  } catch {
    return ownDesk(bytes);
  }
}

/** The answer to a question; one after the other. */
function ask(question) {
  const asked = before.then(() => askNow(question));
  before = asked.catch(() => {});
  return asked;
}

async function askNow(question) {
  desk ??= await openDesk();
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, PATIENCE_MS); });
  const told = await Promise.race([desk.answer(question), late]);
  clearTimeout(timer);
  if (!told) {
    desk.stop();
    desk = undefined;
    throw new Error(`Given up after ${PATIENCE_MS / 1000} s: fewer requests, smaller blocks or fewer threads are faster.`);
  }
  if (told.problem) throw new Error(told.problem);
  return told.answer;
}

// ---- from what is chosen to questions ----

const value = (key) => chosen[key] ?? USUAL[key];
const driveName = () => chosen.drive ?? catalog.usual;

function overrides() {
  const presets = SECTIONS.filter((it) => chosen[it]).map((it) => `${it}.preset=${chosen[it]}`);
  const link = OF_DRIVE.filter((it) => chosen[it]).map((it) => `link.${it}=${chosen[it]}`);
  return [...presets, ...link, ...(chosen.set ?? "").split("\n").map((line) => line.trim()).filter(Boolean)];
}

function drive() {
  return { ...(chosen.text?.trim() ? { text: chosen.text } : { name: driveName() }), set: overrides() };
}

/** fio's name of the access pattern. */
function rw(reads = value("reads")) {
  return value("order") + (reads === 100 ? "read" : reads === 0 ? "write" : "rw");
}

function job(depth = value("iodepth")) {
  const mixed = value("reads") % 100 !== 0;
  return [
    ["rw", rw()], ["bs", bytes(value("bs"))], ["iodepth", `${depth}`], ["numjobs", `${value("numjobs")}`],
    ["number_ios", `${Math.max(1, Math.round(value("requests") / value("numjobs")))}`],
    ...(mixed ? [["rwmixread", `${value("reads")}`]] : []),
  ];
}

const quoted = (word) => (/^[\w.,:=/%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function commandLine() {
  const flag = (name) => `--${name.replaceAll("_", "-")}`;
  const words = ["phaselink", "run", chosen.text?.trim() ? "drive.toml" : driveName()];
  overrides().forEach((it) => words.push("--set", it));
  job().forEach(([name, it]) => words.push(flag(name), it));
  return [...words, "--seed", `${value("seed")}`].map(quoted).join(" ");
}

// ---- answers drawn ----

/** Results of the one job's reads and writes, as far as it has them. */
const directions = (result) => ["read", "write"].map((name) => ({ name, ...result.phaselink.jobs[0][name] })).filter((it) => it.ios);
const total = (result, figure) => result.jobs.reduce((sum, it) => sum + it.read[figure] + it.write[figure], 0);

function mean(result, figure) {
  const all = directions(result);
  const ios = all.reduce((sum, it) => sum + it.ios, 0);
  return all.reduce((sum, it) => sum + figure(it) * it.ios, 0) / ios;
}

const meanLatency = (result) => mean(result, (it) => it.latency_ns.mean);
const tail = (result) => Math.max(...directions(result).map((it) => it.latency_ns.percentile.p99 ?? it.latency_ns.max));

function drawPoint(result, prediction) {
  const [iops, rate] = [total(result, "iops"), total(result, "bw_bytes")];
  const of = prediction.jobs[0];
  const sentence = `${quantity(iops)} requests/s, ${quantity(rate, "B/s")}; a request takes ${seconds(meanLatency(result))} on average. ` +
    result.phaselink.findings.map((it) => it.sentence).join(" ");
  if ($("told").textContent !== sentence) $("told").textContent = sentence;
  const percentile = (key) => directions(result).map((it) => seconds(it.latency_ns.percentile[key])).join(" / ");
  const both = directions(result).length > 1 ? ", reads / writes" : "";
  const tiles = [
    [quantity(iops), "requests a second"], [quantity(rate, "B/s"), "throughput"], [seconds(meanLatency(result)), "mean latency"],
    [percentile("p50"), `median${both}`], [percentile("p99"), `99 %${both}`], [seconds(of.alone_ns), "alone, in closed form"],
  ];
  $("tiles").innerHTML = tiles.map(([figure, name]) => `<div class="tile"><b>${figure}</b><span>${name}</span></div>`).join("");
  drawStages(result);
  drawLimits(of, iops);
}

function drawStages(result) {
  const all = directions(result);
  $("stages").innerHTML = all.map(({ name, stages, total_ns }) => {
    const parts = stages.map(({ stage, mean_ns }) => (
      { name: stage, value: mean_ns, colour: colourOf(stage), figure: `${seconds(mean_ns)}, ${percent(mean_ns / total_ns)}` }));
    const longest = parts.reduce((most, part) => (part.value > most.value ? part : most), parts[0]);
    const whole = Math.max(...all.map((it) => it.total_ns));
    const rows = parts.map((part) => [
      `<span class="key" style="background:${part.colour}"></span>${escaped(part.name)}`, part.value.toFixed(1),
      percent(part.value / total_ns), barCell(part.value / longest.value, part.colour)]);
    return `<figure>${stackedBar(parts, whole, `Stages of a ${name}; the longest is ${longest.name}, ${longest.figure}`)}</figure>` +
      table(`A ${name}: ${seconds(total_ns)} in the mean`, [["stage"], ["ns", true], ["share", true], [""]], rows);
  }).join("");
}

/** Number of resources in the table; the others are far from saturated. */
const LIMITS_MAX = 6;

function drawLimits(of, iops) {
  const rows = of.limits.slice(0, LIMITS_MAX).map((it) => [
    escaped(it.resource), quantity(it.iops_max), quantity(it.bytes_per_s_max, "B/s"), percent(iops / it.iops_max),
    barCell(Math.min(iops / it.iops_max, 1), "var(--series-1)")]);
  $("limits").innerHTML = table(`Saturated from a depth of ${quantity(of.saturation_depth)} on`,
    [["part"], ["requests/s at most", true], ["bytes/s", true], ["used", true], [""]], rows);
}

function drawCurve(points, prediction) {
  if (points.length < 2) {
    $("curve").innerHTML = '<p class="quiet">This drive has one request outstanding at a time.</p>';
    return;
  }
  const depths = points.map((it) => it.depth);
  const limit = { name: prediction.jobs[0].bottleneck, value: prediction.jobs[0].limits[0].iops_max };
  const [iops, latency, p99] = [(it) => total(it, "iops"), meanLatency, tail].map((of) => points.map((it) => of(it.result)));
  const now = value("iodepth");
  const [one, two] = ["var(--series-1)", "var(--series-2)"];
  const key = (colour, name) => `<span><i class="key" style="background:${colour}"></i>${name}</span>`;
  const rows = points.map(({ depth }, place) => [depth, quantity(iops[place]), seconds(latency[place]), seconds(p99[place])]);
  $("curve").innerHTML = `<div class="pair"><figure>${lines(depths, [{ colour: one, values: iops }], {
    label: `Requests a second over depth: ${quantity(iops[0])} at ${depths[0]}, ${quantity(iops.at(-1))} at ${depths.at(-1)}`, unit: "", now, limit,
  })}<figcaption class="keys">${key(one, "requests a second")}</figcaption></figure><figure>${lines(depths, [
    { colour: one, values: latency.map((ns) => ns / 1e9) }, { colour: two, values: p99.map((ns) => ns / 1e9) }], {
    label: `Latency over depth: ${seconds(latency[0])} in the mean at ${depths[0]}, ${seconds(latency.at(-1))} at ${depths.at(-1)}`, unit: "s", now,
  })}<figcaption class="keys">${key(one, "mean latency")}${key(two, "99 %")}</figcaption></figure></div>` +
    tableBehind("Over depth", [["depth"], ["requests/s", true], ["mean latency", true], ["99 %", true]], rows);
}

/** Most rows of the drawing; a stream that polls may have many more. */
const STEPS_MAX = 150;

function drawLadder({ steps, ladder }) {
  const colours = { host: "hsl(212 60% 60%)", link: "hsl(28 75% 55%)", device: "hsl(282 50% 65%)", media: "hsl(145 45% 50%)" };
  const cut = steps.slice(0, STEPS_MAX);
  const more = steps.length - cut.length;
  $("ladder").innerHTML = `<div class="wide" tabindex="0" role="region" aria-label="Packet ladder">${ladderDrawing(cut, colours,
    `${steps.length} steps of one request, from ${steps[0].what} to ${steps.at(-1).what}`)}</div>` +
    (more ? `<p class="quiet">${more} more steps are in the text.</p>` : "") +
    `<details><summary>The ladder as text</summary><pre tabindex="0">${escaped(ladder)}</pre></details>`;
}

// ---- following what is chosen ----

let busy = false, again = false;

/** Draws the settings' results: the point first, then curve and ladder, until a setting changes. */
async function follow() {
  again = true;
  if (busy) return;
  busy = true;
  while (again) {
    again = false;
    try {
      await draw();
      $("problem").hidden = true;
      $("results").classList.remove("stale");
    } catch (error) {
      $("problem").textContent = error.message;
      $("problem").hidden = false;
      $("told").textContent = "This cannot be simulated.";
      $("results").classList.add("stale");
    }
  }
  busy = false;
  document.body.dataset.state = "idle";
}

/** A point of the curve; the deepest that a queue allows may be one less than a power of two, and beyond it is none. */
async function curvePoint(wanted) {
  for (const depth of [wanted, wanted - 1]) {
    // Few requests are enough for a curve, whatever the point has.
    const few = job(depth).map(([name, it]) => [name, name === "number_ios" ? `${Math.ceil(2000 / value("numjobs"))}` : it]);
    try {
      return { depth, result: await ask({ verb: "run", drive: drive(), job: few, seed: value("seed") }) };
    } catch {
      if (depth !== wanted || depth === 1) return undefined;
    }
  }
}

async function draw() {
  document.body.dataset.state = "busy";
  const begun = performance.now();
  $("command").textContent = commandLine();
  const result = await ask({ verb: "run", drive: drive(), job: job(), seed: value("seed") });
  standAsDriveSays(result.phaselink.description);
  shown = { result };
  const { drives: [prediction] } = await ask({ verb: "predict", drive: drive(), job: job() });
  drawPoint(result, prediction);
  shown.point_ms = performance.now() - begun;
  $("problem").hidden = true;
  $("results").classList.remove("stale");
  const points = [];
  for (const depth of DEPTHS) {
    if (again) return;
    const point = await curvePoint(depth);
    if (!point) break;
    points.push(point);
  }
  drawCurve(points, prediction);
  shown.curve_ms = performance.now() - begun;
  if (again) return;
  const single = value("reads") === 0 ? 0 : 100;
  drawLadder(await ask({
    verb: "trace", drive: drive(), rw: rw(single), bs: bytes(value("bs")), iodepth: `${value("iodepth")}`, skip: 64, seed: value("seed"),
  }));
}

// ---- controls ----

/** The place of the nearest value: an address may carry others, which stay as they are. */
function place(values, wanted) {
  const distance = (it) => Math.abs(it - wanted);
  return values.reduce((best, it, at) => (distance(it) < distance(values[best]) ? at : best), 0);
}

function stand(id, now) {
  const { values, told = String } = SLIDERS[id];
  $(id).value = place(values, now);
  $(id).setAttribute("aria-valuetext", told(now));
  document.querySelector(`[data-of=${id}]`).textContent = told(now);
}

/** Disables the sliders for which the interface has no key. */
function standAsDriveSays(description) {
  for (const id of OF_DRIVE) {
    const said = chosen[id] ?? description.link?.[id];
    $(id).disabled = said === undefined;
    stand(id, said ?? SLIDERS[id].values[0]);
  }
}

/** Sets the controls to the settings. */
function showChosen() {
  $("drive").value = driveName();
  $("drive").disabled = Boolean(chosen.text?.trim());
  $("summary").textContent = catalog.drives.find((it) => it.name === driveName())?.summary ?? "";
  SECTIONS.forEach((id) => { $(id).value = chosen[id] ?? ""; });
  ["set", "text"].forEach((id) => { if ($(id).value !== (chosen[id] ?? "")) $(id).value = chosen[id] ?? ""; });
  ["bs", "iodepth", "numjobs", "reads", "requests"].forEach((id) => stand(id, value(id)));
  $("order").value = value("order");
  $("seed").value = value("seed");
}

/** Stores a setting; a default or empty one is removed. */
function choose(id, wanted) {
  if (wanted === "" && id !== "order" || wanted === USUAL[id]) delete chosen[id];
  else chosen[id] = wanted;
  if (id === "drive") [...SECTIONS, ...OF_DRIVE].forEach((key) => delete chosen[key]);
  settle();
}

/** Updates the address, the controls and the drawings after a change of settings. */
function settle() {
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
  showChosen();
  follow();
}

const NUMBERS = [...Object.keys(SLIDERS), "seed"];
const KEYS = ["drive", "order", "set", "text", ...SECTIONS, ...NUMBERS];

/** Returns the settings in an address; invalid ones are omitted. */
function readAddress() {
  const entries = [...new URLSearchParams(location.hash.slice(1))].filter(([key]) => KEYS.includes(key));
  const typed = entries.map(([key, text]) => [key, NUMBERS.includes(key) ? Number(text) : text]);
  chosen = Object.fromEntries(typed.filter(([, it]) => typeof it === "string" || (Number.isInteger(it) && it >= 0)));
  if (!["rand", ""].includes(value("order"))) delete chosen.order;
}

function fill(id, options, first) {
  const all = [...(first ? [["", first, ""]] : []), ...options.map(({ name, summary }) => [name, name, summary])];
  $(id).innerHTML = all.map(([it, name, title]) => `<option value="${escaped(it)}" title="${escaped(title)}">${escaped(name)}</option>`).join("");
}

function listen() {
  for (const id of Object.keys(SLIDERS)) {
    Object.assign($(id), { min: 0, max: SLIDERS[id].values.length - 1, step: 1 });
    $(id).addEventListener("input", () => choose(id, SLIDERS[id].values[$(id).value]));
  }
  for (const id of ["drive", "order", "set", "text", ...SECTIONS]) $(id).addEventListener("change", () => choose(id, $(id).value));
  $("seed").addEventListener("change", () => choose("seed", Math.min(Math.max(0, Math.trunc(Number($("seed").value))), 2 ** 32 - 1)));
  $("reset").addEventListener("click", () => {
    [...SECTIONS, ...OF_DRIVE, "set", "text"].forEach((key) => delete chosen[key]);
    settle();
  });
  window.addEventListener("hashchange", () => { readAddress(); showChosen(); follow(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  copies("copy-command", commandLine);
  copies("copy-toml", async () => (await ask({ verb: "check", drive: drive() })).toml);
  copies("copy-json", () => `${JSON.stringify(shown.result, null, 2)}\n`);
  copies("copy-address", () => location.href);
}

/** Returns the text to be copied, or none while there is none. */
async function textOf(text) {
  try {
    return await text();
  } catch {
    $("copied").textContent = "There is nothing to copy yet.";
  }
}

/** A button that copies, also where there is no clipboard for scripts. */
function copies(id, text) {
  $(id).addEventListener("click", async () => {
    const copy = await textOf(text);
    if (copy === undefined) return;
    try {
      await navigator.clipboard.writeText(copy);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: copy });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    $("copied").textContent = "Copied.";
    setTimeout(() => { $("copied").textContent = ""; }, 2000);
  });
}

async function begin() {
  try {
    catalog = await ask({ verb: "catalog" });
  } catch (error) {
    $("told").textContent = `The simulator cannot be loaded: ${error.message}`;
    return;
  }
  colourOf = stageColours(catalog.stages);
  fill("drive", catalog.drives);
  SECTIONS.forEach((id) => fill(id, catalog.presets.filter((it) => it.section === id), "as the drive says"));
  listen();
  readAddress();
  showChosen();
  follow();
}

begin();
