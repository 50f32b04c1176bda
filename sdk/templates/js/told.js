// An exception that nobody catches ends a call without a trace of its own. What is told instead is the last error in the log.
import { log } from 'windlass:plugin/log@0.1.0';

export const told = (decisions) => Object.fromEntries(Object.entries(decisions).map(([name, decide]) => [name, (...given) => {
  try {
    return decide(...given);
  } catch (error) {
    // What is thrown to say no has a class.
    if (error?.class === undefined) log('error', `${error}\n${error?.stack ?? ''}`);
    throw error;
  }
}]));
