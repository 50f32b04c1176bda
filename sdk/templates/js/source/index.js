// Where the program of `source: {type: @SHORT@, configMap: NAME}` is: in the ConfigMap itself.
// Keep no state, and ask the same things in the same order: a call may be made again with one answer more.
import { get } from 'windlass:plugin/kube@0.1.0';
import { told } from './told.js';

const reference = (spec) => ({ apiVersion: 'v1', kind: 'ConfigMap', name: spec.source?.configMap ?? '' });
// UTF-8; QuickJS has no TextEncoder.
const bytes = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (letter) => letter.charCodeAt(0));
const refuse = (errorClass, reason, message) => { throw { 'class': errorClass, reason, message, details: '{}' }; };

export const plugin = told({
  describe: () => JSON.stringify({
    name: '@NAME@',
    version: '0.1.0',
    summary: 'Programs in ConfigMaps',
    sources: ['@SHORT@'],
    wants: { interfaces: ['kube'], kinds: ['/ConfigMap'] },
  }),
});

export const sourceProvider = told({
  validate: (spec) => (reference(JSON.parse(spec)).name
    ? []
    : [{ field: 'source.configMap', message: 'spec.source.configMap must name a ConfigMap' }]),
  watches: (spec) => [reference(JSON.parse(spec))],
  resolve(request) {
    const wanted = reference(JSON.parse(request).spec);
    const text = get(wanted);
    if (text == null) refuse('not-found', 'ConfigMapMissing', `there is no ConfigMap ${wanted.name}`);
    const { metadata, data = {} } = JSON.parse(text);
    const files = Object.entries(data).map(([path, content]) => ({ path, content: bytes(content) }));
    return { revision: `${wanted.name}@${metadata.resourceVersion}`, artifact: { tag: 'files', val: files }, dir: '' };
  },
});
