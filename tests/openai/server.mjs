// A `rondo serve` of the test's own, on the demo model, with API keys; what several tests ask of it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const program = process.env.RONDO ?? 'build/bin/rondo';
export const key = 'test-key-0123456789';
export const fact = 'The code of the red box is 4817. What is the code of the red box?';
export const answer = 'The code of the red box is 4817.';

// Resolves with the base address, which ends in a slash, and with `stop`.
export async function serve(...more) {
    const folder = mkdtempSync(join(tmpdir(), 'rondo-'));
    const keys = join(folder, 'keys');
    writeFileSync(keys, `${key} tests\n`, { mode: 0o600 });
    const server = spawn(program, ['serve', '--port', '0', '--quiet', '--api-keys', keys, ...more],
        { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => server.once('exit', resolve));
    const line = await new Promise((resolve, reject) => {
        let text = '';
        server.stdout.on('data', (piece) => {
            text += piece;
            if (text.includes('\n')) resolve(text);
        });
        ended.then((code) => reject(new Error(`rondo serve ended with ${code}`)));
    });
    const stop = async () => {
        server.kill('SIGTERM');
        const code = await ended;
        rmSync(folder, { recursive: true });
        assert.equal(code, 0);
    };
    return { base: line.match(/http:\S+\//)[0], stop };
}

// The demo model with a template that writes calls of tools; `remove` deletes it.
export function callingModel() {
    const here = dirname(fileURLToPath(import.meta.url));
    const demo = join(here, '../../examples/demo_model'), folder = mkdtempSync(join(tmpdir(), 'rondo-calling-'));
    for (const name of readdirSync(demo)) symlinkSync(join(demo, name), join(folder, name));
    copyFileSync(join(here, '../fixtures/demo_tools.jinja'), join(folder, 'chat_template.jinja'));
    return { folder, remove: () => rmSync(folder, { recursive: true }) };
}

// The turns under way, and those that ended because their client left.
export async function turns(base) {
    const metrics = await (await fetch(base + 'metrics')).text();
    const sum = (pattern) => [...metrics.matchAll(pattern)].reduce((total, found) => total + Number(found[1]), 0);
    return {
        running: sum(/num_requests_running\{[^}]*\} (\d+)/g),
        aborted: sum(/request_success_total\{[^}]*finished_reason="abort"[^}]*\} (\d+)/g),
    };
}

// Waits until one more turn than `before` has been aborted and none is under way.
export async function endsTurn(base, before) {
    for (let i = 0; i < 100; ++i) {
        const now = await turns(base);
        if (now.running === 0 && now.aborted === before.aborted + 1) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.fail('the turn went on without its client');
}
