// Out-of-memory messages as PyTorch, DeepSpeed's launcher, the system and Shunya print them, in words and numbers of our own.
import { describe, expect, test } from "vitest";
import { type KnownJob, matchingQuantities, quantitiesOf } from "../../src/planner/oom-candidates.ts";
import { cardOf } from "../../src/planner/oom-cards.ts";
import { causeOf } from "../../src/planner/oom-cause.ts";
import { type OomFinding, OomLog } from "../../src/planner/oom-log.ts";
import { printedSize } from "../../src/planner/oom-message.ts";

const gib = 2 ** 30;
const mib = 2 ** 20;

function read(...lines: readonly string[]): readonly OomFinding[] {
  const log = new OomLog();
  for (const line of lines.flatMap((text) => text.split("\n"))) log.push(line);
  return log.end();
}

const old =
  "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 1; 23.69 GiB total capacity; 20.75 GiB already allocated; " +
  "1.25 GiB free; 21.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb";
const recent =
  "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 2 has a total capacity of 79.15 GiB of which " +
  "301.75 MiB is free. Including non-PyTorch memory, this process has 60.50 GiB memory in use. Of the allocated memory 40.25 GiB " +
  "is allocated by PyTorch, and 19.00 GiB is reserved by PyTorch but unallocated.";

describe("messages", () => {
  test("far into a line that has no end, wherever they stand in it", () => {
    for (const before of [0, 15_990, 19_900, 100_000, 700_000]) {
      const [found, ...others] = read(`{"log": "${"=".repeat(before)}${recent}${"-".repeat(50_000)}"}`);
      expect(others).toEqual([]);
      expect(found).toMatchObject({ place: "device", device: 2, tried: { bytes: 768 * mib } });
    }
  });

  test("of PyTorch before 2.1", () => {
    const [found, ...others] = read("step 1", old);
    expect(others).toEqual([]);
    expect(found).toMatchObject({ place: "device", api: "CUDA", device: 1, logLine: 2, count: 1 });
    expect(found!.tried).toMatchObject({ bytes: 2.5 * gib, slackBytes: 0.005 * gib });
    expect(found!.capacity!.bytes).toBe(23.69 * gib);
    expect(found!.allocated!.bytes).toBe(20.75 * gib);
    expect(found!.free!.bytes).toBe(1.25 * gib);
    expect(found!.unallocated!.bytes).toBe(0.75 * gib);
  });

  test("of PyTorch since 2.1", () => {
    const [found] = read(`[rank2]: ${recent}`);
    expect(found).toMatchObject({ place: "device", device: 2 });
    expect(found!.tried!.bytes).toBe(768 * mib);
    expect(found!.capacity!.bytes).toBe(79.15 * gib);
    expect(found!.inUse!.bytes).toBe(60.5 * gib);
    expect(found!.allocated!.bytes).toBe(40.25 * gib);
    expect(found!.unallocated!.bytes).toBe(19 * gib);
  });

  test("with the misspelling that one release had, and broken over lines by a terminal", () => {
    const [found] = read(
      "│ torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.12  │",
      "│ GiB. GPU 0 has a total capacty of 14.75 GiB of which 412.06 MiB is free. │",
      "│ Process 321 has 14.33 GiB memory in use. Of the allocated memory 13.70   │",
      "│ GiB is allocated by PyTorch, and 120.50 MiB is reserved by PyTorch but   │",
      "│ unallocated.                                                             │",
    );
    expect(found!.tried!.bytes).toBe(1.12 * gib);
    expect(found!.capacity!.bytes).toBe(14.75 * gib);
    expect(found!.unallocated!.bytes).toBe(120.5 * mib);
  });

  test.each([
    [
      "device",
      "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 63.98 GiB",
    ],
    ["device", "RuntimeError: CUDA error: out of memory"],
    [
      "host",
      "RuntimeError: [enforce fail at alloc_cpu.cpp:83] DefaultCPUAllocator: can't allocate memory: you tried to allocate 48400000000 bytes. Error code 12",
    ],
    ["host", "RuntimeError: not enough: DefaultCPUAllocator: not enough memory: you tried to allocate 1200 bytes."],
    ["pinned", "RuntimeError: cudaHostAlloc failed with error code 2 (out of memory)"],
    [
      "killed",
      "[2026-01-01 00:00:00,000] [ERROR] [launch.py:1:sigkill_handler] ['python', 'x.py'] exits with return code = -9",
    ],
    ["killed", "run.sh: line 7: 4321 Killed                  python train.py"],
    ["killed", "  exitcode  : -9 (pid: 77)"],
    ["killed", "container exited with code 137"],
    ["killed", "State: Terminated  Reason: OOMKilled"],
    ["disk", "OSError: [Errno 28] No space left on device: '/nvme/zero_stage_3/optimizer/rank0/5.tensor.swp'"],
    ["shared memory", "ERROR: could not write /dev/shm/nccl-Ab12: No space left on device"],
  ])("%s: %s", (place, line) => {
    expect(read("before", line, "after").map((found) => found.place)).toEqual([place]);
  });

  test("a number of bytes is exact", () => {
    const [found] = read("DefaultCPUAllocator: not enough memory: you tried to allocate 48400000000 bytes.");
    expect(found!.tried).toMatchObject({ bytes: 48_400_000_000, slackBytes: 0 });
  });

  test("what only looks like one is none", () => {
    expect(
      read(
        "[INFO] [launch.py:428:sigkill_handler] Killing subprocess 4242",
        "exits with return code = 1",
        "Killed by request of the user",
        "memory: 3 GB free",
        "the option --oom reads a log",
      ),
    ).toEqual([]);
  });

  test("Shunya's own refusal, with the change that it names", () => {
    const [found] = read(
      "error: ZeRO stage 0 needs 7.01 GB of device memory a rank, and the budget is 6.00 GB.",
      "Nothing was allocated.",
      "",
      "device: kind  at the peak   share",
      "Stage 1 with optimizer states on the host fits:",
      "  --stage 1 \\",
      "  --set zero_optimization.offload_optimizer.device=cpu",
    );
    expect(found!.place).toBe("shunya");
    expect(found!.refusal).toMatchObject({
      stage: 0,
      tier: "device",
      needed: { bytes: 7.01e9 },
      budget: { bytes: 6e9 },
      advice:
        "Stage 1 with optimizer states on the host fits: --stage 1 --set zero_optimization.offload_optimizer.device=cpu",
    });
  });

  test("Shunya's ledger, in mid-training", () => {
    const [found] = read(
      "error: device memory: 4096 bytes more for activations do not fit the budget of 1000000 bytes; held now",
    );
    expect(found!.refusal).toMatchObject({ tier: "device", needed: { bytes: 4096 }, budget: { bytes: 1e6 } });
  });

  test("of many ranks are one, with the devices that said so", () => {
    const other = recent.replace("GPU 2", "GPU 0");
    const found = read(`[rank2]: ${recent}`, `[rank0]: ${other}`, `[rank2]: ${recent}`);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ count: 3, devices: [0, 2], logLine: 1 });
  });

  test("of different sizes are told apart", () => {
    expect(read(old, recent).map(({ tried }) => tried!.text)).toEqual(["2.50 GiB", "768.00 MiB"]);
  });

  test("any text is taken", () => {
    expect(
      read("", "\u001b[31m\u001b[0m", "x".repeat(100_000), "Traceback (most recent call last):", 'File "'),
    ).toEqual([]);
  });
});

describe("tracebacks", () => {
  const trace = (...frames: readonly (readonly [file: string, name: string, code: string])[]): OomFinding =>
    read(
      "Traceback (most recent call last):",
      ...frames.map(([file, name, code]) => `  File "${file}", line 10, in ${name}\n    ${code}`),
      old,
    )[0]!;

  test.each([
    ["optimizer states", ["torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like(p)']],
    [
      "optimizer states",
      ["deepspeed/runtime/zero/stage_1_and_2.py", "initialize_optimizer_states", "self.optimizer.step()"],
    ],
    ["logits", ["torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss("]],
    ["attention", ["modeling_x.py", "forward", "attn_weights = torch.matmul(query, key.transpose(2, 3))"]],
    ["bucket", ["deepspeed/runtime/zero/stage_1_and_2.py", "reduce_ipg_grads", "self.average_tensor(x)"]],
    [
      "gathered parameters",
      ["deepspeed/runtime/zero/partitioned_param_coordinator.py", "fetch_sub_module", "self.__all_gather_params("],
    ],
    ["loading", ["train.py", "main", "model = model.cuda()"]],
    ["gradients", ["torch/autograd/__init__.py", "backward", "Variable._execution_engine.run_backward("]],
    ["activations", ["modeling_x.py", "forward", "hidden = self.act_fn(self.up_proj(x))"]],
  ] as const)("%s", (kind, frame) => {
    const found = trace(["train.py", "<module>", "main()"], frame, [
      "torch/nn/modules/module.py",
      "_call_impl",
      "return forward_call(*args)",
    ]);
    expect(causeOf(found.frames)).toMatchObject({ kind, frame: { file: frame[0], name: frame[1] } });
  });

  test("page-locked memory that fails with a card's words is host memory", () => {
    const log = read(
      "Traceback (most recent call last):",
      '  File "deepspeed/accelerator/cuda_accelerator.py", line 240, in pin_memory',
      "    return tensor.pin_memory()",
      "RuntimeError: CUDA error: out of memory",
    );
    expect(log[0]!.place).toBe("pinned");
  });

  test("a new traceback forgets the one before", () => {
    const found = read(
      "Traceback (most recent call last):",
      '  File "torch/optim/adamw.py", line 1, in step',
      "    loss = closure()",
      "KeyError: 3",
      "Traceback (most recent call last):",
      '  File "train.py", line 2, in run',
      "    x = y",
      old,
    );
    expect(found[0]!.frames.map(({ file }) => file)).toEqual(["train.py"]);
    expect(causeOf(found[0]!.frames)).toBeUndefined();
  });

  test("tracebacks of ranks that are mixed stay apart", () => {
    const found = read(
      "[rank0]: Traceback (most recent call last):",
      "[rank1]: Traceback (most recent call last):",
      '[rank0]:   File "zero.py", line 1, in a',
      '[rank1]:   File "one.py", line 1, in b',
      `[rank1]: ${recent}`,
    );
    expect(found[0]!.frames.map(({ file }) => file)).toEqual(["one.py"]);
  });
});

describe("candidates", () => {
  const shape = {
    ...{
      name: "gpt2-xl",
      parameters: 1_557_611_200,
      layers: 48,
      hidden: 1600,
      heads: 25,
      keyValueHeads: 25,
      feedForward: 6400,
    },
    ...{ isGated: false, vocabulary: 50257, positions: 1024, isTied: true, hasDropout: true },
  };
  const job: KnownJob = {
    ...{ parameters: shape.parameters, ranks: 4, shape, microBatch: 8, seqLength: 1024 },
    ...{ elementBytes: 2, reduceElements: 5e8, overlapComm: false },
  };
  const names = (text: string, unit: string, known = job): string[] =>
    matchingQuantities(printedSize(text, unit), "device", quantitiesOf(known), undefined).map(({ name }) => name);

  test.each([
    ["2.90", "GiB", "all parameters (or all gradients) in 16 bits"],
    ["5.80", "GiB", "all parameters (or all gradients) in fp32"],
    ["1.45", "GiB", "a rank's part of the fp32 master copy, or of one moment"],
    ["4.35", "GiB", "a rank's part of all optimizer states of Adam"],
    ["956.00", "MiB", "reduce_bucket_size"],
    ["786.00", "MiB", "logits in 16 bits"],
    ["1.54", "GiB", "logits in fp32 (or their gradient)"],
    ["400.00", "MiB", "attention scores of a layer in 16 bits"],
    ["154.00", "MiB", "the token embedding in 16 bits"],
    ["100.00", "MiB", "one feed-forward activation in 16 bits"],
  ])("%s %s is %s", (text, unit, name) => {
    expect(names(text, unit)).toContain(name);
  });

  test("1e9 bytes of a bucket are the 954 MiB that PyTorch asks for, exactly", () => {
    const [first] = matchingQuantities(printedSize("954.00", "MiB"), "device", quantitiesOf(job), "bucket");
    expect(first).toMatchObject({ name: "reduce_bucket_size", bytes: 1e9, difference: 0 });
  });

  test("what is far off is none, and neither is a block for small tensors", () => {
    expect(names("3.30", "GiB")).toEqual([]);
    expect(names("20.00", "MiB")).toEqual([]);
  });

  test("what the traceback speaks of comes first", () => {
    const tried = printedSize("2.90", "GiB");
    const quantities = quantitiesOf({ ...job, ranks: 2 });
    expect(matchingQuantities(tried, "device", quantities, "optimizer states")[0]!.kind).toBe("optimizer states");
    expect(matchingQuantities(tried, "device", quantities, "loading")[0]!.kind).toBe("loading");
  });

  test("without a model only the bucket is known", () => {
    const known = { ...job, parameters: undefined, shape: undefined };
    expect(quantitiesOf(known).map(({ name }) => name)).toEqual(["reduce_bucket_size"]);
  });
});

test.each([
  [22.2, /^24 GB \(A10/],
  [23.69, /^24 GB \(RTX 3090/],
  [79.35, /^80 GB/],
  [39.39, /^40 GB/],
  [14.56, /T4/],
  [139.8, /^141 GB/],
])("a card of %d GiB", (capacity, label) => {
  expect(cardOf(capacity * gib)).toMatch(label);
});

test("a part of a card is no card", () => {
  expect(cardOf(9.5 * gib)).toBeUndefined();
});
