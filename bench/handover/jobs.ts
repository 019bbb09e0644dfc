/** Plans over all stages, tiers, optimizers, types and both engines, and files such as people have, to hand over to DeepSpeed. */

export interface HandoverJob {
  readonly name: string;
  /** Of `shunya plan`, but for --write-config. */
  readonly flags: string;
  /** A file of `files/` to start from. */
  readonly file?: string;
  readonly ranks: number;
  /** What the job asks for, in words of its own: nobody derives it from the code that is checked. */
  readonly precision: "fp32" | "bf16" | "fp16";
  readonly optimizer: "AdamW" | "Adam" | "Lion" | "SGD" | "Adagrad";
}

const deepspeed = "--engine deepspeed";
const long = "--checkpointing --batch 8";

export const jobs: readonly HandoverJob[] = [
  // plain, this engine
  plain("one card", "--model gpt2 --device A100-40GB", 1, "bf16", "AdamW"),
  plain("no 16 bits", "--model gpt2-medium --device A100-40GB --batch 64", 8, "fp32", "AdamW"),
  plain("accumulation", "--params 1.5e9 --device A10G --batch 32", 4, "bf16", "AdamW"),
  plain("SGD alone", "--model gpt2 --device T4 --batch 4", 1, "fp16", "SGD"),
  plain("SGD, shared", "--params 3e9 --device A10G --batch 64", 16, "bf16", "SGD"),
  plain("Lion, shared", "--params 1.5e9 --device T4 --batch 8", 8, "fp16", "Lion"),
  plain("Adagrad", "--params 3e9 --device A100-40GB --batch 64", 32, "bf16", "Adagrad"),
  plain("Adam, host", `--params 7e9 --device A10G --host-memory 300GB ${long}`, 4, "bf16", "Adam"),
  plain("Adagrad, host", `--params 7e9 --device A10G --host-memory 300GB ${long}`, 2, "bf16", "Adagrad"),
  plain("Lion, host", `--params 13e9 --device A10G --host-memory 600GB ${long}`, 2, "bf16", "Lion"),
  plain("fp32, host", `--params 3e9 --device A10G --host-memory 300GB ${long}`, 2, "fp32", "AdamW"),
  plain("disk", `--params 7e9 --device A10G --host-memory 30GB --disk 2TB ${long}`, 1, "bf16", "AdamW"),
  plain("all on disk", `--params 30e9 --device A10G --host-memory 90GB --disk 2TB ${long}`, 1, "fp16", "AdamW"),
  plain("sixty-four", "--params 13e9 --device A100-40GB --batch 512", 64, "bf16", "AdamW"),

  // plain, DeepSpeed's
  plain("stage 1", `--params 3e9 --device A100-40GB --batch 64 ${deepspeed}`, 8, "bf16", "AdamW"),
  plain("stage 2", `--params 7e9 --device A100-40GB --checkpointing ${deepspeed}`, 8, "fp16", "Adam"),
  plain("stage 3", `--params 13e9 --device A100-40GB --batch 512 ${deepspeed}`, 64, "bf16", "AdamW"),
  plain("a Llama", `--model llama-2-7b --device A100-80GB --batch 64 ${deepspeed}`, 16, "bf16", "Lion"),
  plain(
    "optimizer, host",
    `--params 7e9 --device A100-40GB --host-memory 200GB ${long} ${deepspeed}`,
    1,
    "bf16",
    "AdamW",
  ),
  plain("both, host", `--params 20e9 --device A10G --host-memory 600GB ${long} ${deepspeed}`, 1, "fp16", "Adam"),
  plain("SGD, host", `--params 20e9 --device A10G --host-memory 600GB ${long} ${deepspeed}`, 2, "bf16", "SGD"),
  plain(
    "optimizer, disk",
    `--params 7e9 --device A10G --host-memory 100GB --disk 2TB ${long} ${deepspeed}`,
    1,
    "bf16",
    "AdamW",
  ),
  plain(
    "both, disk",
    `--params 20e9 --device A10G --host-memory 400GB --disk 2TB ${long} ${deepspeed}`,
    1,
    "bf16",
    "AdamW",
  ),

  // from files
  started(
    "trainer.json",
    `--params 7e9 --device A100-40GB --batch 64 --set bf16.enabled=true --set optimizer.params.lr=2e-5`,
    8,
    "bf16",
    "AdamW",
  ),
  started(
    "trainer.json",
    `--params 13e9 --device A100-40GB --host-memory 1TB --batch 32 --set fp16.enabled=true ${deepspeed}`,
    4,
    "fp16",
    "AdamW",
  ),
  started("old-switches.hjson", "--params 1.5e9 --device V100-32GB", 4, "fp16", "Adam"),
  started(
    "old-switches.hjson",
    `--params 7e9 --device V100-32GB --host-memory 700GB --checkpointing ${deepspeed}`,
    4,
    "fp16",
    "Adam",
  ),
  started("boolean.json", "--params 1.5e9 --device A10G", 8, "bf16", "Adam"),
  started("loose.hjson", "--params 1.5e9 --device A10G", 8, "bf16", "Lion"),
  started(
    "loose.hjson",
    `--params 13e9 --device A10G --checkpointing --host-memory 500GB ${deepspeed}`,
    8,
    "bf16",
    "Lion",
  ),
  started("disks.json", "--params 1.5e9 --device A100-40GB", 4, "bf16", "AdamW"),
  started(
    "disks.json",
    "--params 30e9 --device A10G --checkpointing --host-memory 300GB --disk 4TB",
    2,
    "bf16",
    "AdamW",
  ),
  started(
    "decay.json",
    "--params 1.5e9 --device A10G --set scheduler.params.total_num_steps=20000",
    32,
    "fp16",
    "AdamW",
  ),
  started(
    "decay.json",
    `--params 3e9 --device A100-40GB --set scheduler.params.total_num_steps=20000 ${deepspeed}`,
    16,
    "fp16",
    "AdamW",
  ),
  started("cycle.json", "--params 1.5e9 --device A10G", 4, "fp32", "SGD"),
  started("delayed.json", "--params 3e9 --device A10G --host-memory 200GB", 4, "bf16", "AdamW"),
  started("delayed.json", `--params 3e9 --device A10G --host-memory 200GB ${deepspeed}`, 4, "bf16", "AdamW"),
];

type Rest = [ranks: number, precision: HandoverJob["precision"], optimizer: HandoverJob["optimizer"]];

function plain(name: string, flags: string, ...[ranks, precision, optimizer]: Rest): HandoverJob {
  return { name, flags: `${flags} --precision ${precision} --optimizer ${optimizer}`, ranks, precision, optimizer };
}

function started(file: string, flags: string, ...[ranks, precision, optimizer]: Rest): HandoverJob {
  return { name: file, flags, file, ranks, precision, optimizer };
}
