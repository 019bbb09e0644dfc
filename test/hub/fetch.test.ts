// Fetching a model into Hugging Face's cache, from a hub on loopback that stumbles in every way that networks do.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { openModelFolder } from "../../src/checkpoint/huggingface.ts";
import { fetchModel } from "../../src/hub/fetch-model.ts";
import type { Need } from "../../src/hub/needs.ts";
import { parseRepository } from "../../src/hub/repository.ts";
import type { HubSettings } from "../../src/hub/settings.ts";
import { breakOff, commit, etagOf, type FakeHub, fakeHub, gitSha1, isLarge, sendBytes } from "./fake-hub.ts";

const tiny = fileURLToPath(new URL("../oracles/gpt2-tiny/model", import.meta.url));
const weights = readFileSync(join(tiny, "model.safetensors"));
const published: Record<string, Uint8Array> = {
  "config.json": readFileSync(join(tiny, "config.json")),
  "model.safetensors": weights,
  "pytorch_model.bin": Buffer.from("not wanted where there is safetensors"),
  "README.md": Buffer.from("not wanted"),
  "modeling_evil.py": Buffer.from("not wanted"),
};

const here = mkdtempSync(join(tmpdir(), "shunya-hub-"));
afterAll(() => rmSync(here, { recursive: true, force: true }));

let hub: FakeHub;
let cache: string;
let told: { begun: [files: number, bytes: number, heldBytes: number][]; notices: string[] };
beforeEach(async () => {
  hub = await fakeHub({ ...published });
  cache = mkdtempSync(join(here, "cache-"));
  told = { begun: [], notices: [] };
});

const settings = (changes: Partial<HubSettings> = {}): HubSettings => ({
  cache,
  endpoint: hub.endpoint,
  token: undefined,
  isOffline: false,
  patience: { attempts: 3, firstPauseMs: 1, silenceMs: 150 },
  ...changes,
});

const fetch = (changes: Partial<HubSettings> = {}, need: Need = "model", name = "some/model"): Promise<string> =>
  fetchModel(parseRepository(name)!, need, settings(changes), {
    begin: (files, bytes, heldBytes) => void told.begun.push([files, bytes, heldBytes]),
    progress: () => {},
    end: () => {},
    notice: (text) => void told.notices.push(text),
  });

const folder = (): string => join(cache, "models--some--model");
const snapshot = (): string => join(folder(), "snapshots", commit);
const blobs = (): string[] => readdirSync(join(folder(), "blobs")).sort();
const weightsEtag = etagOf("model.safetensors", weights);
const wantedBlobs = [gitSha1(published["config.json"]!), weightsEtag].sort();
const gets = (): string[] => hub.requests.filter((request) => request.startsWith("GET storage"));

describe("a model that the cache has not", () => {
  test("comes with what is read here and nothing else, in the layout that others share", async () => {
    expect(await fetch()).toBe(snapshot());
    expect(readdirSync(snapshot()).sort()).toEqual(["config.json", "model.safetensors"]);
    for (const name of readdirSync(snapshot())) {
      expect(lstatSync(join(snapshot(), name)).isSymbolicLink()).toBe(true);
      expect(readlinkSync(join(snapshot(), name))).toBe(`../../blobs/${etagOf(name, published[name]!)}`);
    }
    expect(blobs()).toEqual(wantedBlobs);
    expect(readFileSync(join(folder(), "refs/main"), "utf8")).toBe(commit);
    await using opened = await openModelFolder(snapshot());
    expect(opened.weights).toBeDefined();
    const [small, large] = [published["config.json"]!.length, weights.length];
    expect(told).toEqual({
      begun: [
        [1, small, 0],
        [1, large, 0],
      ],
      notices: [],
    });
  });

  test("is there the second time without a request, also offline", async () => {
    await fetch();
    const requests = hub.requests.length;
    expect(await fetch()).toBe(snapshot());
    expect(await fetch({ isOffline: true })).toBe(snapshot());
    expect(hub.requests.length).toBe(requests);
  });

  test("comes as its configuration alone where that is all that is needed, and the rest later", async () => {
    await fetch({}, "config");
    expect(readdirSync(snapshot())).toEqual(["config.json"]);
    await fetch();
    expect(readdirSync(snapshot()).sort()).toEqual(["config.json", "model.safetensors"]);
  });

  test("comes in shards, those that its index names", async () => {
    const index = { weight_map: { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" } };
    const { "config.json": config } = published;
    hub.files = { "config.json": config!, "model.safetensors.index.json": Buffer.from(JSON.stringify(index)) };
    for (const name of ["model-00001-of-00002", "model-00002-of-00002", "consolidated"])
      hub.files[`${name}.safetensors`] = Buffer.from(name);
    await fetch();
    expect(readdirSync(snapshot()).filter(isLarge).sort()).toEqual([...new Set(Object.values(index.weight_map))]);
  });

  test("comes as LoRA's adapters alone", async () => {
    for (const name of ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"])
      hub.files[name] = Buffer.from(name);
    expect(await fetch({}, "adapter")).toBe(snapshot());
    expect(readdirSync(snapshot()).toSorted()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
    delete hub.files["adapter_model.safetensors"];
    rmSync(folder(), { recursive: true });
    await fetch({}, "adapter");
    expect(readdirSync(snapshot()).toSorted()).toEqual(["adapter_config.json", "adapter_model.bin"]);
    expect(await fetch({ isOffline: true }, "adapter")).toBe(snapshot());
  });

  test("of a tag or a commit is kept as such", async () => {
    await fetch({}, "model", "some/model@v1");
    expect(readFileSync(join(folder(), "refs/v1"), "utf8")).toBe(commit);
    expect(await fetch({ isOffline: true }, "model", `some/model@${commit}`)).toBe(snapshot());
  });

  test("the token goes to the hub and to nobody else", async () => {
    await fetch({ token: "hf_secret" });
    const byHost = hub.requests.map((request, i) => [request.includes("storage"), hub.authorizations[i]]);
    expect(new Set(byHost.map(String))).toEqual(new Set(["false,Bearer hf_secret", "true,"]));
  });

  test("a tokenizer that only the hub has is fetched, where the cache has the rest from elsewhere", async () => {
    await fetch();
    rmSync(join(folder(), ".no_exist"), { recursive: true });
    hub.files["tokenizer.json"] = Buffer.from("{}");
    expect(await fetch({ isOffline: true })).toBe(snapshot());
    expect(told.notices).toEqual([expect.stringMatching(/no tokenizer\.json of it, and HF_HUB_OFFLINE is set/)]);
    await fetch();
    expect(readdirSync(snapshot())).toContain("tokenizer.json");
  });
});

describe("a network that stumbles", () => {
  test("what has come is kept and gone on with, in one run and in the next", async () => {
    let breaks = 0;
    hub.misbehave = (request, response, file) => {
      if (!request.headers.host!.endsWith(new URL(hub.storage).port) || breaks >= 4) return false;
      // The first run sees three in a row that bring nothing, and gives up.
      breakOff(request, response, hub.files[file]!, breaks++ === 0 ? 1000 : 0);
      return true;
    };
    await expect(fetch()).rejects.toThrow(/some\/model cannot be had\. Tried:[\s\S]*Run the command again: it goes on/);
    expect(blobs()).toEqual([gitSha1(published["config.json"]!), `${weightsEtag}.incomplete`].sort());
    expect(existsSync(join(folder(), "refs/main"))).toBe(false);
    await fetch();
    expect(hub.ranges.filter((range) => range !== undefined).at(-1)).toBe("bytes=1000-");
    expect(told.begun.at(-1)).toEqual([1, weights.length, 1000]);
    expect(blobs()).toEqual(wantedBlobs);
  });

  test("a server that breaks off again and again is followed as long as bytes come", async () => {
    const piece = Math.ceil(weights.length / 10);
    hub.misbehave = (request, response, file) => {
      if (request.method !== "GET" || !isLarge(file) || !request.headers.host!.endsWith(new URL(hub.storage).port))
        return false;
      breakOff(request, response, hub.files[file]!, piece);
      return true;
    };
    await fetch();
    expect(gets().length).toBeGreaterThanOrEqual(10);
    expect(blobs()).toEqual(wantedBlobs);
  });

  test.each([[429], [500], [503]])("status %i is waited out", async (status) => {
    const seen = new Set<string>();
    hub.misbehave = ({ method, url, headers }, response) => {
      const what = `${method} ${headers.host} ${url}`;
      if (seen.has(what)) return false;
      seen.add(what);
      response.writeHead(status, { "retry-after": "0.001" }).end("no");
      return true;
    };
    await fetch();
    expect(blobs()).toEqual(wantedBlobs);
  });

  test("a server that ignores ranges begins anew", async () => {
    let isFirst = true;
    hub.misbehave = (request, response, file) => {
      if (!isLarge(file) || request.headers.host !== new URL(hub.storage).host) return false;
      if (isFirst) breakOff(request, response, hub.files[file]!, 5000);
      else response.end(hub.files[file]);
      isFirst = false;
      return true;
    };
    await fetch();
    expect(blobs()).toEqual(wantedBlobs);
  });

  test.each([
    ["another place", (bytes: number) => `bytes 0-${bytes - 1}/${bytes}`],
    ["another size", (bytes: number) => `bytes 5000-${bytes}/${bytes + 1}`],
  ])("a part of %s is not taken", async (_, rangeOf) => {
    let times = 0;
    hub.misbehave = (request, response, file) => {
      if (!isLarge(file) || request.headers.host !== new URL(hub.storage).host) return false;
      if (times++ === 0) breakOff(request, response, hub.files[file]!, 5000);
      else response.writeHead(206, { "content-range": rangeOf(weights.length) }).end(weights.subarray(5000));
      return true;
    };
    await expect(fetch()).rejects.toThrow(/the server sent bytes .*; wanted byte 5000 on/);
  });

  test("silence ends, and is told", async () => {
    hub.misbehave = (request, response, file) => {
      if (!isLarge(file) || request.headers.host !== new URL(hub.storage).host) return false;
      response.writeHead(200, { "content-length": weights.length }).write(weights.subarray(0, 100));
      return true; // and nothing more
    };
    await expect(fetch()).rejects.toThrow(/no answer within 0\.15 s/);
  });

  test("content that is not what its name says is fetched once more, then refused, and never published", async () => {
    const wrong = Buffer.from(weights);
    wrong[wrong.length - 1]! ^= 1;
    hub.misbehave = (request, response, file) => {
      if (!isLarge(file) || request.headers.host !== new URL(hub.storage).host) return false;
      sendBytes(request, response, wrong, undefined);
      return true;
    };
    await expect(fetch()).rejects.toThrow(/model\.safetensors has checksum [0-9a-f]{64}; wanted [0-9a-f]{64}/);
    expect(gets()).toHaveLength(2);
    expect(blobs()).toEqual([gitSha1(published["config.json"]!)]);
    hub.misbehave = () => false;
    await fetch();
  });

  test("a file that changes while it is fetched is not mixed from two", async () => {
    const [one, two] = ["one", "two"].map((word) => Buffer.from(JSON.stringify({ chat: word.repeat(5000) })));
    hub.files["tokenizer_config.json"] = one!;
    let times = 0;
    hub.misbehave = (request, response, file) => {
      if (file !== "tokenizer_config.json" || request.method !== "GET" || times++ > 0) return false;
      response.writeHead(200, { etag: `"${gitSha1(one!)}"`, "content-length": one!.length });
      response.write(one!.subarray(0, 2000), () => {
        hub.files[file] = two!;
        response.destroy();
      });
      return true;
    };
    await fetch();
    expect(readFileSync(join(snapshot(), "tokenizer_config.json"))).toEqual(two);
  });
});

describe("two processes at once", () => {
  test("one fetches a file, and the other waits for it", async () => {
    const folders = await Promise.all([fetch(), fetch()]);
    expect(folders).toEqual([snapshot(), snapshot()]);
    expect(gets()).toHaveLength(1);
    expect(blobs()).toEqual(wantedBlobs);
  });

  test("what a killed one left is gone on with", async () => {
    mkdirSync(join(folder(), "blobs"), { recursive: true });
    const name = `${weightsEtag}.${"0".repeat(8)}-1-${"0".repeat(8)}.incomplete`;
    writeFileSync(join(folder(), "blobs", name), weights.subarray(0, 777));
    utimesSync(join(folder(), "blobs", name), new Date(0), new Date(0)); // of another host, and long ago
    await fetch();
    expect(hub.ranges.at(-1)).toBe("bytes=777-");
    expect(told.begun.at(-1)).toEqual([1, weights.length, 777]);
    expect(blobs()).toEqual(wantedBlobs);
  });
});

describe("refused", () => {
  test("offline: what was tried, where the cache would be, and what to copy", async () => {
    const error = (await fetch({ isOffline: true }).catch((e: Error) => e)) as Error;
    expect(error.message).toContain("folder: there is no some/model here");
    expect(error.message).toContain(`cache: ${folder()} has nothing of revision main`);
    expect(error.message).toContain("not asked, since HF_HUB_OFFLINE is set");
    expect(error.message).toContain("hf download some/model --local-dir model");
    expect(error.message).toContain("--model model");
    expect(hub.requests).toEqual([]);
  });

  test("a hub that cannot be reached is given up at once", async () => {
    const error = (await fetch({ endpoint: "http://127.0.0.1:9" }).catch((e: Error) => e)) as Error;
    expect(error.message).toMatch(/http:\/\/127\.0\.0\.1:9: .*(ECONNREFUSED|bad port)/);
  });

  test.each([
    [{ "x-error-code": "RepoNotFound" }, 401, /it has no such model, or it is private and there is no HF_TOKEN/],
    [{ "x-error-code": "GatedRepo" }, 403, /only to those who accepted its terms[\s\S]*Accept the terms at http/],
    [{ "x-error-code": "RevisionNotFound" }, 404, /the model has no revision main/],
  ])("%j, status %i", async (headers, status, pattern) => {
    hub.misbehave = (_, response) => {
      response.writeHead(status, headers).end();
      return true;
    };
    await expect(fetch()).rejects.toThrow(pattern);
    expect(hub.requests).toHaveLength(1);
  });

  test.each([["../../evil.safetensors"], ["/etc/evil.safetensors"], ["sub/evil.safetensors"], ["evil.py"], [7]])(
    "an index that names %j",
    async (shard) => {
      const index = Buffer.from(JSON.stringify({ weight_map: { a: shard } }));
      hub.files = { "config.json": published["config.json"]!, "model.safetensors.index.json": index };
      if (typeof shard === "string") hub.files[shard] = Buffer.from("evil");
      await expect(fetch()).rejects.toThrow(/tensor a: found .*; wanted a \.safetensors file name/);
      expect(readdirSync(here).filter((name) => name.includes("evil"))).toEqual([]);
    },
  );

  test.each([
    ["a commit that is a path", { sha: "../../../evil", siblings: [] }],
    ["no list of files", { sha: commit }],
    ["no JSON", "<html>"],
  ])("%s", async (_, answer) => {
    hub.misbehave = (_request, response) => {
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
      return true;
    };
    await expect(fetch()).rejects.toThrow(/did not answer with a commit and a list of files/);
  });

  test.each([["../../evil"], [""], [".hidden"]])("an ETag %j", async (etag) => {
    hub.misbehave = (request, response, file) => {
      if (request.method !== "HEAD" || file === "") return false;
      response.writeHead(200, { etag: `"${etag}"`, "content-length": 4 }).end();
      return true;
    };
    await expect(fetch()).rejects.toThrow(/without a usable ETag and size/);
  });

  test("a model without weights that are read here, before anything is fetched", async () => {
    hub.files = { "config.json": published["config.json"]!, "model-q8_0.gguf": Buffer.from("gguf") };
    await expect(fetch()).rejects.toThrow(/no weights that are read here \(it has model-q8_0\.gguf\)/);
  });

  test("a model that is not trained here, before its weights are fetched", async () => {
    hub.files["config.json"] = Buffer.from('{"model_type":"mamba"}');
    await expect(fetch()).rejects.toThrow(/model_type: found "mamba"/);
    expect(gets()).toEqual([]);
  });

  test("a cache that cannot be written", async () => {
    writeFileSync(join(cache, "models--some--model"), "a file");
    await expect(fetch()).rejects.toThrow(/some\/model cannot be kept in .*; name another folder with HF_HUB_CACHE/);
  });
});

test.each([
  ["gpt2", undefined],
  ["a/b", { owner: "a", name: "b", revision: "main" }],
  ["TinyLlama/TinyLlama-1.1B_x@refs/pr/3", { owner: "TinyLlama", name: "TinyLlama-1.1B_x", revision: "refs/pr/3" }],
  ["./a/b", undefined],
  ["/a/b", undefined],
  ["../b", undefined],
  ["a/..", undefined],
  ["a/b/c", undefined],
  ["a/b@", undefined],
  ["a/b@../../x", undefined],
  ["a/b@x//y", undefined],
  ["a--b/c", undefined],
  ["a/b.", undefined],
  ["a/b\n", undefined],
])("%j as a name", (text, wanted) => {
  expect(parseRepository(text)).toEqual(wanted);
});
