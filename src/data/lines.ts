/** Lines of a stream of bytes, in linear time and with a bound on the length of one. */

export interface Line {
  /** Without the line feed; undefined where the line is longer than the bound. */
  readonly bytes: Buffer | undefined;
  /** From 1. */
  readonly number: number;
  /** False for a last line that the file does not end. */
  readonly isEnded: boolean;
}

export async function* linesOf(chunks: AsyncIterable<Buffer>, longestBytes: number): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let partBytes = 0;
  let number = 1;
  const add = (part: Buffer): void => {
    partBytes += part.length;
    if (partBytes > longestBytes) parts = [];
    else parts.push(part);
  };
  const take = (isEnded: boolean): Line => {
    const bytes = partBytes > longestBytes ? undefined : parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    parts = [];
    partBytes = 0;
    return { bytes, number: number++, isEnded };
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
      add(chunk.subarray(from, end));
      from = end + 1;
      yield take(true);
    }
    if (from < chunk.length) add(chunk.subarray(from));
  }
  if (partBytes > 0) yield take(false);
}
