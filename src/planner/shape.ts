/** A decoder-only transformer as far as memory, traffic and work depend on it. */
export interface TransformerShape {
  /** "gpt2-xl", or how the shape was found: "a GPT of 1.5e9 parameters: 48 layers, 1600 wide (GPT-2 XL's)". */
  readonly name: string;
  readonly parameters: number;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  /** Width between the two (or three) products of the feed-forward part. */
  readonly feedForward: number;
  /** SwiGLU: a third product. */
  readonly isGated: boolean;
  readonly vocabulary: number;
  /** Longest sequence. */
  readonly positions: number;
  /** The output head is the token embedding. */
  readonly isTied: boolean;
  /** Dropout is kept for the backward pass, or there is none. */
  readonly hasDropout: boolean;
}
