// The simulator that answers the page: in a worker where there may be one, in the page, or behind the server.

/** Longest time in ms that the page waits for an answer. */
const PATIENCE_MS = 20000;
/** Time in ms for which a question that nobody wants any more may go on before it is stopped. */
const GRACE_MS = 120;

/** A question that was stopped because another one is asked. */
class Stopped extends Error {}
/** A question that took too long. */
class TooLong extends Error {}

let desk;
/** Settled while no question is in flight. */
let before = Promise.resolve();
/** Stops the question in flight, if there is one. */
let stopQuestion;
/** The compiled module, so that a new worker starts at once. */
let compiled;

async function moduleOf(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
}

function workerDesk(module) {
  const source = $("simulator-source").textContent +
    "let desk; onmessage = async ({ data }) => { desk ??= new Desk(data.module); if (data.question) postMessage(await desk.answer(data.question)); };";
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  worker.postMessage({ module });
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
function ownDesk(module) {
  const Desk = new Function(`${$("simulator-source").textContent}; return Desk;`)();
  const own = new Desk(module);
  return { answer: (question) => own.answer(question) };
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
  const base64 = $("module").textContent.trim();
  if (!base64) return servedDesk();
  compiled ??= await moduleOf(base64);
  try {
    const desk = workerDesk(compiled);
    await desk.answer({ verb: "catalog" });
    return desk;
  } catch {
    return ownDesk(compiled);
  }
}

/** Answers that were given, by the text of their questions; the oldest is forgotten first. */
const known = new Map();
const KNOWN_MAX = 120;

/** The answer to a question; one after the other. */
function ask(question) {
  const text = JSON.stringify(question);
  if (known.has(text)) return Promise.resolve(known.get(text));
  const asked = before.then(() => askNow(question)).then((answer) => {
    known.set(text, answer);
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value);
    return answer;
  });
  before = asked.catch(() => {});
  return asked;
}

async function askNow(question) {
  desk ??= await openDesk();
  const mine = desk;
  let timer;
  const ended = new Promise((_, reject) => {
    const end = (problem) => {
      mine.stop();
      if (desk === mine) desk = undefined;
      reject(problem);
    };
    if (mine.stop) stopQuestion = () => end(new Stopped("stopped"));
    timer = setTimeout(() => (mine.stop ? end(new TooLong(
      `This takes longer than ${PATIENCE_MS / 1000} s: fewer requests, smaller blocks or fewer threads are faster.`)) : 0), PATIENCE_MS);
  });
  try {
    const { problem, answer } = await Promise.race([mine.answer(question), ended]);
    if (problem) throw new Error(problem);
    return answer;
  } finally {
    clearTimeout(timer);
    stopQuestion = undefined;
  }
}

/** Stops the question in flight unless it is answered in a moment. */
function hurry() {
  const stop = stopQuestion;
  if (stop) setTimeout(() => { if (stopQuestion === stop) stop(); }, GRACE_MS);
}
