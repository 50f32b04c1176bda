// How stacks are called in `@SHORT@://BUCKET`, an S3 bucket with a rule for names: TEAM-NAME.
import { told } from './told.js';

export const plugin = told({
  describe: () => JSON.stringify({
    name: '@NAME@',
    version: '0.1.0',
    summary: 'Buckets with a rule for the names of stacks',
    backends: ['@SHORT@'],
  }),
});

const refuse = (reason, message) => { throw { 'class': 'invalid', reason, message, details: '{}' }; };

export const backend = told({
  open(request) {
    const { stack, project, url } = JSON.parse(request);
    const parts = stack.split('/');
    const name = parts.at(-1);
    if (!/^[a-z]+-[a-z0-9]+$/.test(name)) refuse('StackNameInvalid', `stack name ${name}: call it TEAM-NAME`);
    const env = { PULUMI_BACKEND_URL: url.replace(/^[^:]+/, 's3') };
    return JSON.stringify({ stack: `organization/${parts.at(-2) ?? project}/${name}`, env });
  },
  classify(outcome) {
    const { stderrTail = '', diagnostics = [] } = JSON.parse(outcome);
    const unavailable = /timeout|connection refused/i.test(stderrTail);
    return {
      'class': { tag: unavailable ? 'unavailable' : 'program' },
      reason: unavailable ? 'BackendUnavailable' : 'RunFailed',
      message: diagnostics.at(-1)?.message ?? stderrTail.slice(-500),
    };
  },
  staleLock: (_locks, _holders) => 'keep',
});
