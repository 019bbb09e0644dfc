/** A hub on loopback: the parts of Hugging Face's HTTP interface that fetching uses, and ways to go wrong. */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll } from "vitest";

export const commit = "0123456789abcdef0123456789abcdef01234567";

/** Answers in the hub's place; false: the hub answers. */
export type Misbehaviour = (request: IncomingMessage, response: ServerResponse, file: string) => boolean;

export interface FakeHub {
  readonly endpoint: string;
  /** Where large files are sent from: another origin. */
  readonly storage: string;
  /** "GET /a/b" of every request, in order; those to the storage begin with its address. */
  readonly requests: string[];
  readonly authorizations: (string | undefined)[];
  readonly ranges: (string | undefined)[];
  /** Changed by tests while the hub runs. */
  files: Record<string, Uint8Array>;
  siblings: unknown;
  misbehave: Misbehaviour;
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
export const gitSha1 = (bytes: Uint8Array): string =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");

export const isLarge = (name: string): boolean => /\.(safetensors|bin)$/.test(name);
export const etagOf = (name: string, bytes: Uint8Array): string => (isLarge(name) ? sha256(bytes) : gitSha1(bytes));

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A hub with one model, `some/model`; large files are redirected to another origin, as they are on the real one. */
export async function fakeHub(files: Record<string, Uint8Array>): Promise<FakeHub> {
  const requests: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const ranges: (string | undefined)[] = [];
  const hub = { files, siblings: undefined as unknown, misbehave: (() => false) as Misbehaviour };
  const storage = await listen(
    createServer((request, response) => {
      const file = decodeURIComponent(request.url!.slice(1));
      requests.push(`${request.method} storage ${file}`);
      authorizations.push(request.headers.authorization);
      ranges.push(request.headers.range);
      if (!hub.misbehave(request, response, file)) sendBytes(request, response, hub.files[file]!, undefined);
    }),
  );
  const endpoint = await listen(
    createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      authorizations.push(request.headers.authorization);
      const path = new URL(request.url!, "http://hub").pathname;
      const resolved = /^\/some\/model\/resolve\/[0-9a-f]{40}\/(.+)$/.exec(path)?.[1];
      const file = resolved === undefined ? "" : decodeURIComponent(resolved);
      if (resolved !== undefined && request.method === "GET") ranges.push(request.headers.range);
      if (hub.misbehave(request, response, file)) return;
      if (/^\/api\/models\/some\/model\/revision\/(main|v1|[0-9a-f]{40})$/.test(path)) {
        const siblings = hub.siblings ?? Object.keys(hub.files).map((rfilename) => ({ rfilename }));
        response.end(JSON.stringify({ sha: commit, siblings }));
        return;
      }
      const bytes = hub.files[file];
      if (bytes === undefined) {
        const code = path.startsWith("/api/models/some/model/") ? "RevisionNotFound" : "RepoNotFound";
        response.writeHead(404, { "x-error-code": code, "x-error-message": "not found" }).end();
      } else if (isLarge(file)) {
        const linked = { "x-linked-etag": `"${etagOf(file, bytes)}"`, "x-linked-size": String(bytes.length) };
        response.writeHead(302, { ...linked, location: `${storage}/${encodeURIComponent(file)}` }).end();
      } else sendBytes(request, response, bytes, `"${etagOf(file, bytes)}"`);
    }),
  );
  return Object.assign(hub, { endpoint, storage, requests, authorizations, ranges });
}

/** As servers of files do: whole, or from a byte on. */
export function sendBytes(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  bytes: Uint8Array,
  etag: string | undefined,
): void {
  const [, first] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
  const isSame = headers["if-range"] === undefined || headers["if-range"] === etag;
  const from = first === undefined || !isSame ? 0 : Number(first);
  const named = etag === undefined ? {} : { etag };
  if (from > 0) {
    const range = { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
    response.writeHead(206, { ...named, ...range, "content-length": bytes.length - from });
  } else response.writeHead(200, { ...named, "content-length": bytes.length });
  response.end(method === "HEAD" ? undefined : bytes.subarray(from));
}

/** So many bytes of the answer, and then the connection is gone. */
export function breakOff(request: IncomingMessage, response: ServerResponse, bytes: Uint8Array, sent: number): void {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
  const range = from > 0 ? { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : {};
  response.writeHead(from > 0 ? 206 : 200, { ...range, "content-length": bytes.length - from });
  response.write(bytes.subarray(from, from + sent), () => setTimeout(() => response.destroy(), 20)); // time for what was sent to arrive
}
