// `shunya generate` as a user runs it: one prompt, many, on ranks that share the model, stopped, and given nonsense.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../../src/launch/exit-codes.ts";
import { root, run, start, temporaryFolder, tinyModel, tinyTokens, tinyTraining, writeFiles } from "./command.ts";

const here = temporaryFolder();
const trained = join(here, "trained");
mkdirSync(trained);
copyFileSync(join(tinyModel, "config.json"), join(trained, "config.json"));
copyFileSync(join(root, "test/oracles/gpt2-tiny/final/model.safetensors"), join(trained, "model.safetensors"));
writeFiles(here, {
  "stage3.json": {
    train_batch_size: 32,
    bf16: { enabled: false },
    zero_optimization: { stage: 3, stage3_param_persistence_threshold: 0, offload_param: { device: "cpu" } },
  },
  "prompts.jsonl": '{"prompt": "we "}\nnot json\n\n{"text": "no prompt"}\n{"prompt": 7}\n{"prompt": "the ", "id": 1}\n',
  "none.jsonl": "[]\n",
});
const generate = ["generate", "--model", trained, "--threads", "1"];
const greedy = ["--temperature", "0", "--tokens", "12"];

test("many prompts: a line each, odd lines reported, and the same on ranks that share the model or the prompts", async () => {
  const args = [...generate, ...greedy, "--jsonl", join(here, "prompts.jsonl")];
  const alone = await run(args);
  expect(alone.exitCode).toBe(exitCodes.ok);
  const answers = alone.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(answers.map(({ prompt, tokens, finish }) => ({ prompt, tokens, finish }))).toEqual([
    { prompt: "we ", tokens: 12, finish: "length" },
    { prompt: "the ", tokens: 12, finish: "length" },
  ]);
  for (const place of ["prompts.jsonl:2", "prompts.jsonl:3", "prompts.jsonl:4", "prompts.jsonl:5 (a number)"])
    expect(alone.stderr).toContain(place);
  for (const config of [["--config", join(here, "stage3.json")], []]) {
    const several = await run([...args, "--ranks", "2", ...config]);
    expect({ ...several, stderr: "" }).toEqual({ ...alone, stderr: "" });
  }

  const one = await run([...generate, ...greedy, "--prompt", "we "]);
  expect(one).toEqual({ exitCode: exitCodes.ok, stdout: `we ${answers[0]!.completion}\n`, stderr: "" });
});

test("Ctrl-C ends the text and the command", async () => {
  const { child, output, ended } = start([...generate, "--prompt", "we ", "--tokens", "100000000"]);
  await new Promise<void>((resolve) => {
    const look = setInterval(() => {
      if (output.stdout.length < 10) return;
      clearInterval(look);
      resolve();
    }, 10);
  });
  child.kill("SIGINT");
  const { exitCode, stdout, stderr } = await ended;
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.interrupted, stderr: "" });
  expect(stdout.endsWith("\n")).toBe(true);
});

test("samples while training: shown and logged where they are due, and the same losses and ledgers as without", async () => {
  // Copies of persistent parameters would be renewed by the sample instead of by the step after it.
  const unkept = ["--set", "zero_optimization.stage3_param_persistence_threshold=0"];
  const [plain, sampled] = [join(here, "plain.jsonl"), join(here, "sampled.jsonl")];
  const args = [
    ...tinyTraining,
    "--data",
    tinyTokens,
    "--ranks",
    "2",
    "--steps",
    "4",
    "--stage",
    "3",
    "--micro-batch",
    "2",
    ...unkept,
  ];
  expect((await run([...args, "--log-json", plain])).exitCode).toBe(exitCodes.ok);
  const prompts = ["--sample-prompt", "we ", "--sample-prompt", "a\tb"];
  const { exitCode, stdout, stderr } = await run([...args, "--log-json", sampled, "--eval-every", "3", ...prompts]);
  expect({ exitCode, stderr }).toEqual({ exitCode: exitCodes.ok, stderr: "" });
  const linesOf = (path: string) =>
    readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const logged = linesOf(sampled);
  const untimed = ({ tokensPerSecond: _, samples: __, ...line }: Record<string, unknown>) => line;
  expect(logged.map(untimed)).toEqual(linesOf(plain).map(untimed));
  expect(logged.map(({ samples }) => (samples as unknown[] | undefined)?.length)).toEqual([undefined, undefined, 2, 2]);
  const [first] = logged[2]!.samples as { prompt: string; text: string }[];
  expect(first!.prompt).toBe("we ");
  expect([...first!.text]).not.toHaveLength(0);
  for (const shown of ["step 3 sample: we ", "step 4 sample: a\\u0009b"]) expect(stdout).toContain(shown);
});

describe("nonsense", () => {
  test.each([
    [["--prompt", "a", "--jsonl", "b"], exitCodes.user, "give one of them"],
    [[], exitCodes.user, "nothing to continue"],
    [["--jsonl", "no/such.jsonl"], exitCodes.user, "no/such.jsonl: no such file; check --jsonl"],
    [["--jsonl", here], exitCodes.user, "it is a folder, where a file is wanted"],
    [["--jsonl", join(here, "none.jsonl")], exitCodes.user, 'has no line with a text in field "prompt"'],
    [["--prompt", "a", "--config", "no.json"], exitCodes.user, "no.json"],
    [
      ["--prompt", "a", "--device-memory", "100kB"],
      exitCodes.memory,
      "fewer tokens or a shorter prompt, or a --config with bf16",
    ],
  ])("%j", async (flags, exitCode, message) => {
    const found = await run([...generate, ...flags]);
    expect(found.stderr).toContain(message);
    expect({ exitCode: found.exitCode, stdout: found.stdout }).toEqual({ exitCode, stdout: "" });
  });
});
