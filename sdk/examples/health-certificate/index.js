// The health of cert-manager's Certificates: a Stack that made one is not done before it is issued.
import { told } from './told.js';

export const plugin = told({
  describe: () => JSON.stringify({
    name: 'health-certificate',
    version: '0.1.0',
    summary: "Health of cert-manager's Certificates",
    healthKinds: ['cert-manager.io/Certificate'],
  }),
});

export const healthCheck = told({
  assess(text, _context) {
    const { metadata = {}, status = {} } = JSON.parse(text) ?? {};
    const conditions = new Map((status.conditions ?? []).map((one) => [one.type, one]));
    const ready = conditions.get('Ready');
    const issuing = conditions.get('Issuing');
    const seen = (one) => (one?.observedGeneration ?? metadata.generation) === metadata.generation;
    if (ready?.status === 'True' && seen(ready)) {
      return { status: 'healthy', message: `valid until ${status.notAfter ?? 'further notice'}` };
    }
    if (issuing?.status === 'True') {
      return { status: 'progressing', message: issuing.message ?? 'is being issued' };
    }
    // A last failure, and nobody at work on it: the next attempt is hours away.
    if (status.lastFailureTime !== undefined || issuing?.reason === 'Failed') {
      return { status: 'degraded', message: issuing?.message ?? ready?.message ?? 'could not be issued' };
    }
    return { status: 'progressing', message: ready?.message ?? 'waits for its first issuance' };
  },
});
