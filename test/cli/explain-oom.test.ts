// shunya explain --oom as a user runs it.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root, run, temporaryFolder, tooWide, writeFiles } from "./command.ts";

const trace = [
  "Traceback (most recent call last):",
  '  File "train.py", line 31, in <module>',
  "    loss = model(ids, labels=ids).loss",
  '  File "/x/torch/nn/functional.py", line 3059, in cross_entropy',
  "    return torch._C._nn.cross_entropy_loss(input, target)",
];
const full =
  "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.54 GiB. GPU 0 has a total capacity of 22.19 GiB of which 1.00 GiB is free. " +
  "Including non-PyTorch memory, this process has 21.19 GiB memory in use. Of the allocated memory 20.50 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.";
const folder = writeFiles(temporaryFolder(), {
  "ds.json": {
    ...{ train_batch_size: 32, fp16: { enabled: true }, optimizer: { type: "AdamW" } },
    zero_optimization: { stage: 2, offload_optimizer: { device: "cpu" } },
  },
  "logits.log": ["step 1", "50 %\r60 %\r70 %", ...trace, full].join("\n"),
  "killed.log": "[2026-01-01 00:00:00,000] [ERROR] ['python'] exits with return code = -9\n",
  "small.log":
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.76 GiB total capacity; 13.90 GiB already allocated; 9.75 MiB free; 14.01 GiB reserved in total by PyTorch)",
  "pieces.log":
    "CUDA out of memory. Tried to allocate 4.00 GiB (GPU 0; 39.56 GiB total capacity; 25.00 GiB already allocated; 2.00 GiB free; 36.50 GiB reserved in total by PyTorch)",
  "none.log": "all is well\n",
});
const flat = (text: string): string => text.replace(/\s+/g, " ");
const oom = (...args: string[]) => run(["explain", "--oom", ...args], folder);

test("logits, with a job that is known", async () => {
  const { exitCode, stdout, stderr } = await oom(
    "logits.log",
    "--config",
    "ds.json",
    "--ranks",
    "4",
    "--model",
    "gpt2-xl",
  );
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(tooWide(stdout)).toEqual([]);
  const text = flat(stdout);
  expect(text).toMatch(/^logits\.log:10: a device is full \(GPU 0\)/);
  expect(text).toMatch(/as a card of 24 GB \(A10, A10G, L4\) reports/);
  expect(text).toMatch(/cross_entropy: .*probably logits/);
  expect(text).toMatch(
    /It may be logits in fp32 .*: 8 x 1,024 x 50,257 x 4 = 1\.65 GB \(equal, as far as it is printed\)/,
  );
  expect(text).toMatch(/3\.12 GB are model states .*the other 18\.9 GB are activations/);
  expect(text).toMatch(
    /1\. This fits, by the estimate of DeepSpeed on PyTorch \(1\d\.\d GB of the device and \d\.\d+ GB of host memory\): "train_micro_batch_size_per_gpu": [124], "gradient_accumulation_steps": [842] /,
  );
});

test("without a job what helps is said in order, in formulas", async () => {
  const text = flat((await oom("logits.log")).stdout);
  const order = [
    /in chunks/,
    /Micro-batch 1/,
    /Checkpoint activations/,
    /stage 1 shares .*12 psi \(N-1\)\/N/,
    /"offload_optimizer": .*12 psi\/N/,
    /"offload_param"/,
    /"nvme"/,
  ];
  const places = order.map((pattern) => text.search(pattern));
  expect(places).toEqual([...places].sort((x, y) => x - y));
  expect(places).not.toContain(-1);
});

test("as JSON, with the candidates", async () => {
  const { stdout } = await oom("logits.log", "--config", "ds.json", "--ranks", "4", "--model", "gpt2-xl", "--json");
  const { messages } = JSON.parse(stdout) as { messages: readonly Record<string, unknown>[] };
  expect(messages).toHaveLength(1);
  expect(messages[0]).toMatchObject({
    ...{ line: 10, place: "device", triedBytes: 1.54 * 2 ** 30, cause: { kind: "logits" } },
    candidates: [{ kind: "logits", bytes: 8 * 1024 * 50257 * 4, difference: 0 }],
  });
});

test("a process that was killed is host memory, where more offload is no help", async () => {
  const text = flat((await oom("killed.log", "--config", "ds.json", "--ranks", "8", "--params", "6.05e9")).stdout);
  expect(text).toMatch(/8 x 24\.2 GB = 194 GB/);
  // 12 psi of states and 2 psi of gradients, and with DeepSpeed's copies up to 22 psi.
  expect(text).toMatch(/at least 84\.7 GB for 8 ranks; .*up to 133 GB/);
  expect(text).toMatch(/Take offload_optimizer back/);
  expect(text).not.toMatch(/"offload_optimizer": \{ "device": "cpu" \}/);
});

test("a block of 20 MiB says nothing of the tensor", async () => {
  const text = flat((await oom("small.log")).stdout);
  expect(text).toMatch(/20\.00 MiB is the block that PyTorch asks for .*only the last drop/);
  expect(text).toMatch(/16 GB \(T4\)/);
});

test("memory in pieces", async () => {
  expect(flat((await oom("pieces.log")).stdout)).toMatch(
    /1\. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True .*11\.50 GiB .*enough for what was asked but in pieces/,
  );
});

test("a log without such a message", async () => {
  const { exitCode, stdout } = await oom("none.log");
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/^none\.log has no message of memory that ran out\. Looked for:/);
});

test("from standard input, and of any length", () => {
  const input = `${"epoch 1 of 9: nothing to see\n".repeat(200_000)}${full}\n`;
  const command = [join(root, "bin/shunya.js"), "explain", "--oom", "-"];
  const { status, stdout } = spawnSync(process.execPath, command, { input, encoding: "utf8" });
  expect(status).toBe(0);
  expect(stdout).toMatch(/^standard input:200001: a device is full/);
});

test("a card that is named has its own room", async () => {
  const job = ["--config", "ds.json", "--ranks", "4", "--model", "gpt2-xl"];
  const large = flat((await oom("logits.log", ...job, "--device", "A100-80GB")).stdout);
  expect(large).toMatch(/the job fits as it is .*look for other processes .*2\. Make the loss in chunks/);
  const small = flat((await oom("logits.log", ...job, "--device", "T4")).stdout);
  expect(small).toMatch(/This fits, .*"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4/);
});
