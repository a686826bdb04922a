// examples/monitoring against Debian's Prometheus, which scrapes a `rondo serve` under load: every expression of the
// dashboard must have samples that are numbers. How to run it: README.md.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, before, after } from 'node:test';
import { key, serve } from '../openai/server.mjs';

const examples = new URL('../../examples/monitoring/', import.meta.url);
const dashboard = JSON.parse(readFileSync(new URL('rondo_dashboard.json', examples)));
const config = readFileSync(new URL('prometheus.yml', examples), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'rondo-prometheus-'));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const panels = dashboard.panels.filter((panel) => panel.type !== 'row');
const variables = Object.fromEntries(dashboard.templating.list.map((variable) => [variable.name, variable]));
let server, prometheus, api, load, loading = true;

const freePort = () =>
    new Promise((resolve) => {
        const listener = createServer().listen(0, '127.0.0.1', () => {
            const { port } = listener.address();
            listener.close(() => resolve(port));
        });
    });

// Prompts long enough that methods leave something out, by every method in turn; some belong to a conversation.
async function keepAsking(client) {
    const headers = { authorization: `Bearer ${key}` };
    const { methods } = (await (await fetch(server.base + 'v1/models', { headers })).json()).data[0];
    const content = 'The code of the red box is 4817. '.repeat(30) + 'What is the code of the red box?';
    for (let i = 0; loading; ++i) {
        const body = {
            messages: [{ role: 'user', content }], method: methods[i % methods.length], max_tokens: 64, ignore_eos: true,
            ...(i % 3 ? {} : { conversation: `load-${client}-${i}` }),
        };
        const request = { method: 'POST', headers, body: JSON.stringify(body) };
        const reply = await fetch(server.base + 'v1/chat/completions', request);
        assert.equal(reply.status, 200, await reply.text());
    }
}

async function query(expression) {
    const reply = await (await fetch(`${api}query?query=${encodeURIComponent(expression)}`)).json();
    assert.equal(reply.status, 'success', `${expression}: ${reply.error}`);
    return reply.data.result;
}

// What Grafana puts in place of its variables.
const filled = (expression) => {
    const text = expression.replaceAll('$__rate_interval', '15s').replaceAll('$model', '.*');
    assert.ok(!text.includes('$'), text);
    return text;
};

before(async () => {
    server = await serve('--set', 'pipeline.methods=[loopserve, snapkv]', '--set', 'pipeline.prefill.attention.min_tokens=0',
        '--set', 'pipeline.decode.attention.budget_tokens=96');
    const file = join(folder, 'prometheus.yml'), port = await freePort();
    const ours = config.replace('127.0.0.1:8080', new URL(server.base).host).replace('scrape_interval: 5s', 'scrape_interval: 1s');
    assert.ok(ours.includes(new URL(server.base).host) && ours.includes('1s'));
    writeFileSync(file, ours);
    prometheus = spawn('prometheus', [`--config.file=${file}`, `--web.listen-address=127.0.0.1:${port}`,
        `--storage.tsdb.path=${join(folder, 'data')}`, '--log.level=error'], { stdio: 'inherit' });
    api = `http://127.0.0.1:${port}/api/v1/`;
    for (let i = 0; ; ++i) {
        assert.equal(prometheus.exitCode, null, 'prometheus ended');
        if (await fetch(`http://127.0.0.1:${port}/-/ready`).then((reply) => reply.ok, () => false)) break;
        assert.ok(i < 600, 'prometheus is not ready after a minute');
        await pause(100);
    }
    load = Promise.all([keepAsking(0), keepAsking(1)]);
    load.catch(() => {});  // told of in `after`
});

after(async () => {
    loading = false;
    try {
        await load;
    } finally {
        if (prometheus) {
            const ended = new Promise((resolve) => prometheus.once('exit', resolve));
            if (prometheus.exitCode === null && prometheus.kill('SIGTERM')) await ended;
        }
        await server?.stop();
        rmSync(folder, { recursive: true });
    }
});

test('promtool has nothing to say but that names of vLLM\'s kind have a colon', async () => {
    const input = await (await fetch(server.base + 'metrics')).text();
    const checked = spawnSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' });
    assert.equal(checked.error, undefined);
    const complaints = (checked.stdout + checked.stderr).split('\n').filter((line) => line && !/should not contain ':'$/.test(line));
    assert.deepEqual(complaints, []);
    execFileSync('promtool', ['check', 'config', join(folder, 'prometheus.yml')]);
});

test('Prometheus takes every scrape', async () => {
    const scrapes = async () => Number((await query('sum_over_time(up{job="rondo"}[1m])'))[0]?.value[1] ?? 0);
    for (let i = 0; i < 60 && await scrapes() < 3; ++i) await pause(500);  // none before the first
    assert.equal((await query('min_over_time(up{job="rondo"}[1m])'))[0]?.value[1], '1');
});

test('the dashboard\'s list of models is filled', async () => {
    const [, series, label] = variables.model.query.match(/^label_values\((\S+), (\w+)\)$/);
    assert.deepEqual((await query(series)).map((sample) => sample.metric[label]), ['demo_model']);
});

test('panels have ids of their own and ask the chosen Prometheus', () => {
    assert.ok(panels.length > 0);
    assert.equal(new Set(dashboard.panels.map((panel) => panel.id)).size, dashboard.panels.length);
    for (const panel of panels) assert.equal(panel.datasource.uid, '${datasource}', panel.title);
});

for (const panel of panels) {
    test(`panel: ${panel.title}`, async () => {
        assert.ok(panel.targets.length > 0);
        for (const { expr } of panel.targets) {
            let samples = [];
            for (let i = 0; i < 120; ++i, await pause(500)) {  // rates need two scrapes and turns that ended between them
                samples = await query(filled(expr));
                if (samples.some((sample) => Number.isFinite(Number(sample.value[1])))) break;
            }
            assert.ok(samples.some((sample) => Number.isFinite(Number(sample.value[1]))), `${expr}: ${JSON.stringify(samples)}`);
        }
    });
}

test('each metric that Rondo has is on the dashboard', async () => {
    const text = await (await fetch(server.base + 'metrics')).text();
    const all = panels.flatMap((panel) => panel.targets.map((target) => target.expr)).join('\n');
    const missing = [...text.matchAll(/^# TYPE (\S+)/gm)].map((found) => found[1]).filter((name) => !all.includes(name));
    assert.deepEqual(missing, []);
});
