// Test that the module answers with the bytes that the program prints: figures.mjs MODULE PROGRAM
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

const [module, program] = process.argv.slice(2);
const source = readFileSync(new URL("../page/simulator.js", import.meta.url), "utf8");
const { Simulator } = new Function(`${source}; return { Simulator };`)();
const simulator = await Simulator.load(await WebAssembly.compile(readFileSync(module)));
const run = promisify(execFile);

const catalog = simulator.ask({ verb: "catalog" });
const SHAPES = [
  { rw: "randread", bs: "4k", iodepth: "1" },
  { rw: "randread", bs: "512", iodepth: "16" },
  { rw: "randwrite", bs: "4k", iodepth: "8" },
  { rw: "randrw", bs: "8k", iodepth: "4", rwmixread: "70" },
  { rw: "read", bs: "64k", iodepth: "2", numjobs: "2" },
  { rw: "write", bs: "4k", iodepth: "4" },
  { rw: "randread", bs: "4k", iodepth: "2", numjobs: "2", random_distribution: "zipf:1.1" },
  { rw: "randrw", bs: "16k", iodepth: "32", numjobs: "3", rwmixread: "25" },
  { rw: "randwrite", bs: "4k", iodepth: "8", burst: "1" },
];
const OVERRIDES = [
  [], ["link.lanes=8"], ["link.generation=5", "link.lanes=2"], ["media.preset=dram"], ["media.preset=nand-mlc"],
  ["link.one_way_ns=900"], ["stack.preset=user-space"], ["stack.preset=linux-3.5-read-fio"], ["host.variation=0.3"],
  ["stack.preset=linux-6"],
];

/** All drives with all shapes, the overrides taking turns, and the usual drive with each override. */
function* configurations() {
  let turn = 0;
  for (const drive of catalog.drives.map((it) => it.name)) {
    for (const shape of SHAPES) yield { drive, set: OVERRIDES[turn % OVERRIDES.length], shape, seed: 1 + turn++ };
  }
  for (const set of OVERRIDES) {
    for (const shape of SHAPES) yield { drive: catalog.usual, set, shape, seed: 7 };
  }
}

/** Returns the output of a command: its document without blanks, or its problems in the words of a page, without blanks and the word in front. */
async function printed(words) {
  try {
    return { answer: compact((await run(program, words, { maxBuffer: 1 << 26 })).stdout) };
  } catch (error) {
    if (error.code !== 2 && error.code !== 1) throw error;
    return { problem: withoutFlags(unwrapped(error.stderr.replaceAll(/^error: /gm, ""))) };
  }
}

/** A problem of the program in the words of a page, which has no command line: `--number-ios` is `number_ios`. */
const withoutFlags = (text) =>
  text.replaceAll("command line: ", "question: ").replaceAll("--set ", "")
    .replaceAll(/--([a-z-]+)/g, (_, name) => name.replaceAll("-", "_"));

/** The words of a text, which a terminal and a page break into lines in different places. */
const unwrapped = (text) => text.split(/\s+/).filter(Boolean).join(" ");

/** JSON without the blanks between its words, all digits kept. */
const compact = (text) => text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");

/** The text of the module's answer without what it is wrapped in. */
function answered(question) {
  const text = simulator.askText(question);
  return text.startsWith('{"answer":') ? { answer: text.slice('{"answer":'.length, -1) } : { problem: unwrapped(JSON.parse(text).text) };
}

const equal = { run: 0, predict: 0, check: 0, trace: 0 };
let refused = 0;
const unequal = [];
function compare(words, theirs, ours) {
  if (theirs.answer === ours.answer && theirs.problem === ours.problem) {
    theirs.problem ? refused++ : equal[words[0]]++;
    return;
  }
  const [a, b] = [theirs.answer ?? theirs.problem, ours.answer ?? ours.problem];
  const at = [...a].findIndex((letter, place) => letter !== b[place]);
  unequal.push(`${words.join(" ")}\n  program ${a.slice(Math.max(0, at - 60), at + 60)}\n  module  ${b.slice(Math.max(0, at - 60), at + 60)}`);
}

async function check({ drive, set, shape, seed }) {
  const job = Object.entries({ ...shape, number_ios: "300" });
  const described = { name: drive, set };
  const flags = job.flatMap(([name, value]) => (name === "burst" ? ["--burst"] : [`--${name.replaceAll("_", "-")}`, value]));
  const words = [drive, ...set.flatMap((it) => ["--set", it]), ...flags];
  const run = ["run", ...words, "--seed", `${seed}`, "--json", "--quiet"];
  compare(run, await printed(run), answered({ verb: "run", drive: described, job, seed }));
  const predict = ["predict", ...words, "--json", "--quiet"];
  compare(predict, await printed(predict), answered({ verb: "predict", drive: described, job }));
}

async function checkTexts(drive) {
  const toml = (await run(program, ["check", drive, "--toml"])).stdout;
  const ladder = (await run(program, ["trace", drive, "--iodepth", "4"])).stdout;
  const ours = {
    toml: simulator.ask({ verb: "check", drive: { name: drive } }).toml,
    ladder: simulator.ask({ verb: "trace", drive: { name: drive }, rw: "randread", bs: "4k", iodepth: "4", skip: 64, seed: 1 }).ladder,
  };
  compare(["check", drive, "--toml"], { answer: toml }, { answer: ours.toml });
  compare(["trace", drive], { answer: ladder }, { answer: ours.ladder });
}

for (const configuration of configurations()) await check(configuration);
for (const { name } of catalog.drives) await checkTexts(name);

/** Medians over some repetitions in ms: on the clock, and of the processor's time. */
function median(task) {
  const times = Array.from({ length: 41 }, () => {
    const [begun, busy] = [performance.now(), process.cpuUsage()];
    task();
    return [performance.now() - begun, process.cpuUsage(busy).user / 1000];
  });
  return [0, 1].map((kind) => times.map((it) => it[kind]).sort((a, b) => a - b)[20].toFixed(1));
}

const job = [["rw", "randread"], ["bs", "4k"], ["iodepth", "8"], ["number_ios", "2000"]];
for (const name of [catalog.usual, "nvme"]) {
  const [clock, busy] = median(() => simulator.ask({ verb: "run", drive: { name }, job, seed: 1 }));
  console.log(`2,000 requests of ${name} take ${clock} ms, ${busy} ms of the processor's time`);
}
console.log(`equal to the last bit: ${Object.entries(equal).map(([verb, count]) => `${count} ${verb}`).join(", ")}; ` +
  `refused by both in the same words: ${refused}; unequal: ${unequal.length}`);
if (unequal.length) {
  console.log(unequal.slice(0, 5).join("\n"));
  process.exit(1);
}
if (equal.run < 200 || equal.predict < 200) {
  console.log("too few configurations were compared");
  process.exit(1);
}
