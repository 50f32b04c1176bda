// What "healthy" means for a @TYPE@. Keep no state: every call meets a fresh instance.
import { told } from './told.js';

export const plugin = told({
  describe: () => JSON.stringify({
    name: '@NAME@',
    version: '0.1.0',
    summary: 'Health of a @TYPE@',
    healthKinds: ['example.org/@TYPE@'],
  }),
});

export const healthCheck = told({
  assess(text, _context) {
    const { metadata = {}, status = {} } = JSON.parse(text) ?? {};
    if (status.observedGeneration !== metadata.generation) {
      return { status: 'progressing', message: 'the controller has not seen the latest spec' };
    }
    const ready = (status.conditions ?? []).find(({ type }) => type === 'Ready');
    return { status: ready?.status === 'True' ? 'healthy' : 'degraded', message: ready?.message ?? 'not ready' };
  },
});
