// Data of a test as a run would read them: files in a folder of their own, a cache beside it, tokens as bytes.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, expect } from "vitest";
import { type PreparedData, type PrepareOptions, prepareData } from "../../src/data/prepare.ts";
import { TokenFile, type TokenRange } from "../../src/data/token-file.ts";
import { openRanges, type TokenSource } from "../../src/data/tokens.ts";
import { DataError, UsageError } from "../../src/errors/errors.ts";
import { byteTokenizer } from "../../src/tokenizer/tokenizer.ts";

export type Content = string | Uint8Array;

export class DataFolder {
  readonly path = mkdtempSync(join(tmpdir(), "shunya-data-"));
  readonly cache = join(this.path, ".cache");

  constructor() {
    afterAll(() => rmSync(this.path, { recursive: true, force: true }));
  }

  /** Writes a file, with the folders that its name speaks of. */
  file(name: string, content: Content): string {
    const path = join(this.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  }

  at(name: string): string {
    return join(this.path, name);
  }

  prepare(args: readonly string[], options: Partial<PrepareOptions> = {}): Promise<PreparedData> {
    return prepareData(args, {
      tokenizer: byteTokenizer,
      vocabularySize: 256,
      textField: "text",
      cacheFolder: this.cache,
      ...options,
    });
  }

  /** All tokens as text, and what is said of them, with this folder's path left out. */
  async read(
    args: readonly string[],
    options: Partial<PrepareOptions> = {},
  ): Promise<{ text: string; notices: string }> {
    const { tokens, notices } = await this.tokens(args, options);
    return { text: Buffer.from(tokens).toString(), notices };
  }

  async tokens(args: readonly string[], options: Partial<PrepareOptions> = {}) {
    const prepared = await this.prepare(args, options);
    const ranges = prepared.sources.flatMap((source) => source.ranges);
    await using source = await openRanges(ranges, { vocabularySize: options.vocabularySize ?? 256 });
    const tokens = [...(await source.read(0, source.count))];
    return { tokens, notices: prepared.notices.join("\n").replaceAll(`${this.path}/`, "") };
  }

  /** The message of the error that a user gets. */
  async refusal(args: readonly string[], options: Partial<PrepareOptions> = {}): Promise<string> {
    const error = await this.prepare(args, options).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error instanceof DataError || error instanceof UsageError, String(error)).toBe(true);
    return (error as Error).message.replaceAll(`${this.path}/`, "");
  }
}

/** Files that are tokens as they lie there, checked and joined. */
export async function openTokens(paths: readonly string[], options: { vocabularySize: number }): Promise<TokenSource> {
  const ranges: TokenRange[] = [];
  for (const path of paths) {
    const file = await TokenFile.open(path, options.vocabularySize);
    ranges.push(file.range);
    await file.close();
  }
  return openRanges(ranges, options);
}
