/** Published measurements that say too little to be estimated, or are of something that the estimator does not speak about. */
export interface UnusableRow {
  readonly ids: string;
  readonly why: string;
}

export const unusableRows: readonly UnusableRow[] = [
  {
    ids: "A8 (DeepSpeed's offload_states)",
    why: "four bare layers without a batch; it shows that states leave, not what a job takes",
  },
  { ids: "A10 (DeepSpeed issues 4700, 4701)", why: "the model is not named; it shows that cached is not allocated" },
  {
    ids: "A13 (PyTorch issue 82001)",
    why: "T5, an encoder and decoder, under FSDP before it limited how far gathers run ahead",
  },
  {
    ids: "C5, C7 (DeepSpeed issue 1883, pull requests 7250 to 7309)",
    why: "neither model nor batch is given; the second says that ZeRO-1 and 2 with offload held three times the parameters before May 2025",
  },
  { ids: "C9 (dllm 9)", why: "a diffusion model's loss; sequence and batch are not given" },
  {
    ids: "C13 (litgpt 177)",
    why: "42 GB on one card are less than Falcon-7B's states, so only a part was trained; which is not said",
  },
  { ids: "C15, C17's other row, C24", why: "T5, DeBERTa and BERT are not decoders" },
  { ids: "C19 (axolotl)", why: "its authors' estimates, not measurements" },
  { ids: "C22, E13 (PatrickStar, ColossalAI)", why: "engines that place memory by other rules" },
  {
    ids: "C26's 27 GB",
    why: "memory that is the same at batch 1 and 64 while the host's grows says that activations went to the host too, and which states did is not said; its two outcomes are under fit",
  },
  {
    ids: "C28, E1, E3 (llama-cookbook, torchtitan)",
    why: "FSDP with tensor or context parallelism, compiled or with selective checkpointing, whose choice of ops is not given",
  },
  { ids: "C30, F, the 3-D rows of JeanZay", why: "tensor and pipeline parallelism, which the question cannot state" },
  {
    ids: "C32 (OpenTau pull request 273)",
    why: "a vision-language-action model; its pairs of allocated and reserved are used for the allocator's share",
  },
  {
    ids: "D7, the ZeRO-3 rows of JeanZay",
    why: "speeds; of memory only that micro-batch 22 of a 52B did not fit, and the checkpoints of the 18 that did would alone take 19 of its 34 GB beside 13 GB of states, so they were split or offloaded, which is not said",
  },
  {
    ids: "E5's other rows, E7, E11's adapter rows",
    why: "adapters, quantised weights, updates inside the backward pass, or compiled graphs",
  },
  { ids: "E9's mixture of experts", why: "experts are not part of a shape" },
  {
    ids: "E11's 7B rows at 512 and 1024 tokens",
    why: "23 GB more for 768 tokens a card cannot be one micro-batch with checkpointing; what changed is not said",
  },
];
