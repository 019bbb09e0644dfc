/** What is used of yauzl 3, which comes without types. */
declare module "yauzl" {
  export interface Entry {
    readonly fileName: string;
    readonly compressionMethod: number;
    readonly compressedSize: number;
    readonly uncompressedSize: number;
    readonly crc32: number;
    isEncrypted(): boolean;
  }
  export interface ZipFile {
    readonly entryCount: number;
    eachEntry(): AsyncIterable<Entry>;
    readLocalFileHeaderPromise(entry: Entry, options: { minimal: true }): Promise<{ readonly fileDataStart: number }>;
  }
  const yauzl: { fromFdPromise(fd: number, options: { autoClose: false }): Promise<ZipFile> };
  export default yauzl;
}
