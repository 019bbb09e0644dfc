/** Far more than a machine is good for; each rank is a process. */
export const mostRanks = 256;
export const mostThreads = 1024;
