/** Finds out-of-memory messages in a log of any length, line by line, each with the frames of the traceback before it. */
import { type OomMessage, type OomPlace, placeOfLine, readOomMessage } from "./oom-message.ts";

/** A line of a traceback. */
export interface Frame {
  readonly file: string;
  readonly line: number;
  readonly name: string;
  /** The source line that was shown below it; "" where none was. */
  readonly code: string;
}

export interface OomFinding extends OomMessage {
  /** In the log, from 1. */
  readonly logLine: number;
  /** The innermost last. */
  readonly frames: readonly Frame[];
  /** Messages alike, this one included. */
  readonly count: number;
  /** Numbers of the devices that said so. */
  readonly devices: readonly number[];
}

/** Terminals and log viewers break a message into so many lines at most; a refusal of Shunya's has tables before its advice. */
const mostLines = 8;
const mostRefusalLines = 60;
const mostFrames = 200;
/** Longer lines are progress bars, dumps and logs as JSON: of these the part with the message is read. */
const longestLine = 20_000;
/** Parts have so much in common, that a message may stand where one ends. */
const commonLength = 4000;

/** Colours, what launchers and loggers put before a line, and frames that pretty printers draw around one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: terminals' own
const colours = /\u001b\[[0-9;]*[A-Za-z]/g;
const rankPrefix = /^\s*(?:\[(?:rank|default)?\s?(\d+)\]:|rank\s?(\d+):)\s*/i;
const drawn = /^[│|╭╰─\s]+|[│|╮╯─\s]+$/g;

const pythonFrame = /File "([^"]+)", line (\d+), in ([^\s(]+)/;
/** As IPython and pretty printers show them. */
const otherFrame = /(?:^|\s)((?:~|\/|\.{1,2}\/)\S*\.py):(\d+)(?:,? in ([\w<>.]+))?/;

interface Pending {
  readonly place: OomPlace;
  readonly logLine: number;
  readonly frames: readonly Frame[];
  readonly lines: string[];
}

/** The first part of a long line in which memory ran out, else its beginning. */
function partOf(line: string): string {
  for (let from = 0; from === 0 || from + commonLength < line.length; from += longestLine - commonLength) {
    const part = line.slice(from, from + longestLine);
    if (placeOfLine(part) !== undefined) return part;
  }
  return line.slice(0, longestLine);
}

export class OomLog {
  readonly #findings: OomFinding[] = [];
  /** By the rank that a line names, since tracebacks of ranks are mixed. */
  readonly #frames = new Map<string, Frame[]>();
  #pending: Pending | undefined;
  #line = 0;

  push(raw: string): void {
    this.#line++;
    const line = partOf(raw).replace(colours, "");
    const prefix = rankPrefix.exec(line);
    const rank = prefix?.[1] ?? prefix?.[2] ?? "";
    const text = line.replace(rankPrefix, "").replace(drawn, "");
    const place = placeOfLine(text);
    if (this.#pending !== undefined && this.#continues(text, place)) {
      this.#pending.lines.push(text);
      return;
    }
    this.#finish();
    if (place !== undefined) {
      const frames = this.#frames.get(rank) ?? [];
      this.#pending = { place, logLine: this.#line, frames: [...frames], lines: [text] };
      this.#frames.delete(rank);
      return;
    }
    this.#note(rank, text);
  }

  /** All messages, those alike once. */
  end(): readonly OomFinding[] {
    this.#finish();
    return this.#findings;
  }

  /** Whether a line belongs to the message that was begun. */
  #continues(text: string, place: OomPlace | undefined): boolean {
    const { place: begun, lines } = this.#pending!;
    if (begun === "shunya") return lines.length < mostRefusalLines && (place === undefined || place === begun);
    if (place !== undefined || lines.length >= mostLines || text === "") return false;
    return (begun === "device" || begun === "host") && !/Traceback|File "|^\[?\d{4}-\d\d-\d\d/.test(text);
  }

  #note(rank: string, text: string): void {
    const frames = this.#frames.get(rank) ?? [];
    if (text.includes("Traceback (most recent call last)")) frames.length = 0;
    const found = pythonFrame.exec(text) ?? otherFrame.exec(text);
    const last = frames.at(-1);
    if (found !== null) frames.push({ file: found[1]!, line: Number(found[2]), name: found[3] ?? "", code: "" });
    else if (last?.name === "" && /^(?:in )?[\w<>.]+$/.test(text))
      frames[frames.length - 1] = { ...last, name: text.replace("in ", "") };
    else if (last !== undefined && text.includes("❱"))
      frames[frames.length - 1] = { ...last, code: text.slice(0, 200) };
    else if (last?.code === "" && text !== "" && !/^[\^~\s]+$/.test(text))
      frames[frames.length - 1] = { ...last, code: text.slice(0, 200) };
    if (frames.length > mostFrames) frames.shift();
    if (frames.length > 0) this.#frames.set(rank, frames);
  }

  #finish(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) return;
    const { logLine, frames, lines } = pending;
    const text = lines.join(" ").replace(/\s+/g, " ").trim();
    const message = readOomMessage(placeByFrames(pending), text);
    const at = this.#findings.findIndex((finding) => isAlike(finding, message));
    const devices = message.device === undefined ? [] : [message.device];
    if (at < 0) this.#findings.push({ ...message, logLine, frames, count: 1, devices });
    else {
      const found = this.#findings[at]!;
      this.#findings[at] = {
        ...found,
        count: found.count + 1,
        devices: [...new Set([...found.devices, ...devices])].sort((a, b) => a - b),
        frames: found.frames.length > 0 ? found.frames : frames,
      };
    }
  }
}

/** Page-locked memory that cannot be had is told with the words of a full card. */
function placeByFrames({ place, frames }: Pending): OomPlace {
  const last = frames.at(-1);
  const isPinning = last !== undefined && /pin_memory/.test(`${last.name} ${last.code}`);
  return place === "device" && isPinning ? "pinned" : place;
}

/** The same trouble on another rank, or told twice. */
function isAlike(a: OomMessage, b: OomMessage): boolean {
  if (a.place !== b.place) return false;
  if (a.place !== "device" && a.place !== "host") return true;
  return a.tried?.bytes === b.tried?.bytes || b.tried === undefined;
}
