// What people's clients do with `rondo serve`: each client by each capability, and a table of that. How to run: README.md.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test, before, after } from 'node:test';
import { langchain, llamaindex, openai, vercelAi } from './clients.mjs';
import { answer, callingModel, endsTurn, fact, key, serve, turns } from './server.mjs';

const makers = {
    'openai': openai, 'ai + @ai-sdk/openai-compatible': vercelAi, '@langchain/openai': langchain,
    '@llamaindex/openai': llamaindex,
};
const user = (content) => [{ role: 'user', content }];
const history = [
    ...user('The code of the red box is 4817.'), { role: 'assistant', content: 'OK.' },
    ...user('What is the code of the red box?'),
];
let server, calling, model;

const usageIsRight = (usage) => assert.ok(usage?.prompt > 10 && usage.completion > 5, JSON.stringify(usage));

// Each returns what stands in the table; nothing is "yes".
const capabilities = {
    async 'chat'(client) {
        const reply = await client.chat(user(fact));
        assert.equal(reply.text, answer);
        usageIsRight(reply.usage);
    },
    async 'stream, usage'(client) {
        const reply = await client.stream(user(fact));
        assert.equal(reply.text, answer);
        assert.ok(reply.chunks > 5, `${reply.chunks} chunks`);
        usageIsRight(reply.usage);
    },
    async 'history'(client) {
        const [told, untold] = [await client.chat(history), await client.chat(history.slice(2))];
        assert.equal(told.text, answer);
        assert.notEqual(untold.text, answer);
    },
    async 'logprobs'(client) {
        const tokens = await client.logprobs(user(fact));
        assert.ok(tokens.length > 5);
        for (const token of tokens) {
            assert.ok(token.logprob <= 0);
            assert.equal(token.top.length, 3);
            assert.ok(token.top[0] >= token.top[2]);
        }
    },
    async 'completions'(client, name) {
        const reply = await client.complete('The code of the red box is', 5);
        assert.ok(reply.text.length > 0);
        assert.ok(reply.usage.completion >= 1 && reply.usage.completion <= 5, JSON.stringify(reply.usage));
        return name === '@llamaindex/openai' ? 'by chat' : 'yes';
    },
    async 'abort'(client, name) {
        const before = await turns(server.base);
        await client.abort(user(fact));
        await endsTurn(server.base, before);
        return name === '@llamaindex/openai' ? 'by signal' : 'yes';
    },
    // A call with arguments of its schema, the same as a stream, and a text behind its result.
    async 'tools'(_, name) {
        const { call, streamed, text } = await makers[name](calling.base, key).tools(user(fact));
        assert.equal(call.name, 'clock');
        assert.ok(['CET', 'UTC'].includes(call.args.zone), JSON.stringify(call));
        assert.deepEqual(streamed, call);
        assert.ok(text.length > 0);
        return 'yes';
    },
    // A template that knows none: the error must reach whoever called the client, and name the field.
    async 'no tools'(client) {
        await assert.rejects(client.tools(user(fact)), (error) => {
            assert.equal(error.status ?? error.statusCode, 400, String(error));
            assert.match(error.message, /\btools\b/);
            return true;
        });
        return '400, named';
    },
    async 'wrong key'(client, name) {
        const stranger = makers[name](server.base, 'wrong-key-0123456789');
        await assert.rejects(stranger.chat(user(fact)), (error) => {
            assert.equal(error.status ?? error.statusCode, 401, String(error));
            return true;
        });
        return '401';
    },
};

const rows = Object.fromEntries(Object.keys(makers).map((name) => [name, {}]));

before(async () => {
    server = await serve();
    model = callingModel();
    calling = await serve('--model', model.folder, '--set', 'server.served_model_names=[demo_model]');
});

after(async () => {
    const names = Object.keys(capabilities);
    const line = (cells) => `| ${cells.join(' | ')} |`;
    const table = [line(['client', ...names]), line(['client', ...names].map(() => '---'))];
    for (const [name, row] of Object.entries(rows)) table.push(line([name, ...names.map((what) => row[what] ?? 'FAILED')]));
    if (process.env.CLIENT_TABLE) writeFileSync(process.env.CLIENT_TABLE, table.join('\n') + '\n');
    else console.log(table.join('\n'));
    await server.stop();
    await calling.stop();
    model.remove();
});

for (const [name, make] of Object.entries(makers)) {
    for (const [what, check] of Object.entries(capabilities)) {
        test(`${name}: ${what}`, async () => {
            rows[name].client ??= make(server.base, key);
            rows[name][what] = (await check(rows[name].client, name)) ?? 'yes';
        });
    }
}
