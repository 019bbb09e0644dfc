/** The injected logger. Rooms that have something to say take one; nothing in the library writes to the console by itself. */

export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  /** A warning that is said once per `key`, however often the cause comes back. */
  warnOnce(key: string, message: string): void;
  error(message: string): void;
}

export interface LoggerOptions {
  /** Only rank 0 prints: N ranks that say the same thing N times hide it. Left out: the RANK of the environment, else 0. */
  readonly rank?: number;
  /** Also print debug messages. */
  readonly verbose?: boolean;
  /** Where a line goes, newline included. Left out: standard error, so that standard output holds results only. */
  readonly write?: (line: string) => void;
}

export function createLogger(options: LoggerOptions = {}): Logger {
  const rank = options.rank ?? Number(process.env.RANK ?? 0);
  const write = options.write ?? ((line: string) => process.stderr.write(line));
  const said = new Set<string>();
  const print = (prefix: string, message: string): void => {
    if (rank === 0) write(`${prefix}${message}\n`);
  };
  return {
    debug: (message) => {
      if (options.verbose) print("debug: ", message);
    },
    info: (message) => print("", message),
    warn: (message) => print("warning: ", message),
    warnOnce: (key, message) => {
      if (said.has(key)) return;
      said.add(key);
      print("warning: ", message);
    },
    error: (message) => print("error: ", message),
  };
}
