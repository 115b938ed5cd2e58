// Settings, the address that contains them, and the questions that follow from them.

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
const USUAL = { drive: FIRST_DRIVE, bs: 4096, iodepth: 1, numjobs: 1, reads: 100, order: "rand", burst: 0, requests: 2000, seed: 1, prices: "slc-cpu" };
const NUMBERS = [...Object.keys(SLIDERS), "burst", "seed"];
const KEYS = ["drive", "order", "set", "text", "vs", "prices", ...SECTIONS, ...NUMBERS];

/** Settings: absent keys have the drive's values, or the defaults. The address contains exactly these. */
let chosen = {};

const value = (key, of = chosen) => of[key] ?? USUAL[key];
const isOwn = (of = chosen) => Boolean(of.text?.trim());
const hasWrites = (of = chosen) => value("reads", of) < 100;

/** Returns the settings in a text such as an address has; invalid ones are omitted. */
function readSettings(text) {
  const entries = [...new URLSearchParams(text)].filter(([key]) => KEYS.includes(key));
  const typed = entries.map(([key, text]) => [key, NUMBERS.includes(key) ? Number(text) : text]);
  const settings = Object.fromEntries(typed.filter(([, it]) => typeof it === "string" || (Number.isInteger(it) && it >= 0)));
  if (!["rand", ""].includes(value("order", settings))) delete settings.order;
  return settings;
}

/** Settings of the pinned state, if one is pinned. */
function pinnedSettings() {
  if (chosen.vs === undefined) return undefined;
  const settings = readSettings(chosen.vs);
  delete settings.vs;
  return settings;
}

function overrides(of = chosen) {
  const presets = SECTIONS.filter((it) => of[it]).map((it) => `${it}.preset=${of[it]}`);
  const link = OF_DRIVE.filter((it) => of[it]).map((it) => `link.${it}=${of[it]}`);
  return [...presets, ...link, ...(of.set ?? "").split("\n").map((line) => line.trim()).filter(Boolean)];
}

function drive(of = chosen) {
  return { ...(isOwn(of) ? { text: of.text } : { name: value("drive", of) }), set: overrides(of) };
}

/** fio's name of the access pattern. */
function rw(of = chosen, reads = value("reads", of)) {
  return value("order", of) + (reads === 100 ? "read" : reads === 0 ? "write" : "rw");
}

function job(depth = value("iodepth"), of = chosen) {
  const reads = value("reads", of);
  return [
    ["rw", rw(of)], ["bs", bytes(value("bs", of))], ["iodepth", `${depth}`], ["numjobs", `${value("numjobs", of)}`],
    ["number_ios", `${Math.max(1, Math.round(value("requests", of) / value("numjobs", of)))}`],
    ...(reads % 100 !== 0 ? [["rwmixread", `${reads}`]] : []),
    ...(hasWrites(of) && value("burst", of) ? [["burst", "1"]] : []),
  ];
}

/** A job with fewer requests, and from the first one on: what a first look needs. */
const quickJob = (jobs, count) => [
  ...jobs.filter(([name]) => name !== "burst").map(([name, it]) => [name, name === "number_ios" ? `${Math.min(Number(it), count)}` : it]),
  ...(jobs.some(([name, it]) => name === "rw" && !it.endsWith("read")) ? [["burst", "1"]] : []),
];

const runQuestion = (of = chosen, jobs = job(value("iodepth", of), of)) => ({ verb: "run", drive: drive(of), job: jobs, seed: value("seed", of) });
const predictQuestion = (of = chosen) => ({ verb: "predict", drive: drive(of), job: job(value("iodepth", of), of) });
/** One request alone, so that all packets are its own. */
const traceQuestion = (of = chosen) => ({
  verb: "trace", drive: drive(of), rw: rw(of, value("reads", of) === 0 ? 0 : 100), bs: bytes(value("bs", of)), iodepth: "1", skip: 64, seed: value("seed", of),
});

/** Loads from 5 % to 100 % of the throughput of the job with many requests in flight, with few requests each. */
const kneeQuestion = (of = chosen) => ({
  verb: "knee", drive: drive(of), question: { seed: value("seed", of) },
  job: quickJob(job(64, of), 0).map(([name, it]) => [name, { number_ios: "1000", numjobs: "4" }[name] ?? it]),
});
const enduranceQuestion = (of = chosen) => ({ verb: "endurance", drive: drive(of), question: {} });
const breakEvenQuestion = (of = chosen) => ({ verb: "breakeven", question: { description: value("prices", of) } });

const quoted = (word) => (/^[\w.,:=/%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function commandLine(of = chosen) {
  const flag = ([name, it]) => (name === "burst" ? ["--burst"] : [`--${name.replaceAll("_", "-")}`, it]);
  const words = ["phaselink", "run", isOwn(of) ? "drive.toml" : value("drive", of)];
  overrides(of).forEach((it) => words.push("--set", it));
  words.push(...job(value("iodepth", of), of).flatMap(flag));
  return [...words, "--seed", `${value("seed", of)}`].map(quoted).join(" ");
}

const driveTitle = (of = chosen) => (isOwn(of) ? "a drive file of your own" : humanName(value("drive", of)));

/** Work of a job in words: `4k random reads, depth 8`. */
function work(of = chosen) {
  const reads = value("reads", of);
  const kind = reads === 100 ? "reads" : reads === 0 ? "writes" : `requests, ${reads} % reads`;
  const parts = [`${bytes(value("bs", of))} ${value("order", of) ? "random" : "sequential"} ${kind}`, `depth ${value("iodepth", of)}`];
  if (value("numjobs", of) > 1) parts.push(`${value("numjobs", of)} threads`);
  if (hasWrites(of) && value("burst", of)) parts.push("burst");
  return parts.join(", ");
}

/** What tells a state from another: the drive's name, or those settings that differ. */
function difference(of, other) {
  const parts = [];
  if (driveTitle(of) !== driveTitle(other)) parts.push(driveTitle(of));
  for (const key of [...SECTIONS, ...OF_DRIVE]) if (of[key] !== other[key]) parts.push(`${key} ${of[key] ?? "as the drive says"}`);
  if (of.set !== other.set) parts.push(of.set?.split("\n").join(", ") || "no further keys");
  if (isOwn(of) && isOwn(other) && of.text !== other.text) parts.push("another text");
  if (work(of) !== work(other)) parts.push(work(of));
  return parts.join(", ") || driveTitle(of);
}
