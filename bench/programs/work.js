// Work for node whose memory comes from malloc: buffers outside of V8's own heap, compression, text
// to bytes and back. Prints a digest that depends on every step; the same under any allocator.
'use strict';
const zlib = require('zlib');
const crypto = require('crypto');

let seed = 42;
const next = (below) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >>> 8) % below;
};
const digest = crypto.createHash('sha256');
const kept = [];

for (let i = 0; i < 200000; i++) {
    const buffer = Buffer.allocUnsafeSlow(16 + next(8000));
    buffer.fill(next(256));
    kept[next(2000)] = buffer;
    if (i % 64 === 0) {
        digest.update(buffer);
    }
}
for (let i = 0; i < 800; i++) {
    const text = JSON.stringify(Array.from({ length: 400 }, (_, k) => ({ k, v: next(1000) })));
    const packed = zlib.deflateSync(text, { level: 1 });
    const back = zlib.inflateSync(packed).toString();
    if (back !== text) {
        throw new Error('what was packed did not come back');
    }
    digest.update(back);
}
for (const buffer of kept) {
    digest.update(buffer || '-');
}
console.log(digest.digest('hex'));
