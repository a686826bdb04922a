// The official OpenAI client against `rondo serve`. How to run it: README.md.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test, before, after } from 'node:test';
import { answer, callingModel, endsTurn, fact, key, serve, turns } from './server.mjs';

const require = createRequire(import.meta.url);
const { OpenAI } = require('openai');
const { zodResponseFormat } = require('openai/helpers/zod');
const { z } = require('zod');
let server, base, client;

before(async () => {
    server = await serve();
    base = server.base;
    client = new OpenAI({ apiKey: key, baseURL: base + 'v1', maxRetries: 0 });
});

after(() => server.stop());

const ask = (more = {}) =>
    client.chat.completions.create({
        model: 'demo_model',
        messages: [{ role: 'user', content: fact }],
        temperature: 0,
        ...more,
    });

test('lists models', async () => {
    const models = await client.models.list();
    assert.deepEqual(models.data.map((model) => model.id), ['demo_model']);
});

test('answers, and says what it used', async () => {
    const reply = await ask();
    assert.equal(reply.choices[0].message.content, answer);
    assert.equal(reply.choices[0].finish_reason, 'stop');
    const { usage } = reply;
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    const details = usage.prompt_tokens_details;
    assert.equal(details.cached_tokens + details.restored_tokens + details.recomputed_tokens, usage.prompt_tokens);
});

test('streams the same, with usage at the end', async () => {
    const stream = await ask({ stream: true, stream_options: { include_usage: true } });
    let text = '', usage = null, finish = null, chunks = 0;
    for await (const chunk of stream) {
        ++chunks;
        text += chunk.choices[0]?.delta?.content ?? '';
        finish = chunk.choices[0]?.finish_reason ?? finish;
        usage = chunk.usage ?? usage;
    }
    assert.equal(text, answer);
    assert.equal(finish, 'stop');
    assert.ok(chunks > 5);
    assert.ok(usage.completion_tokens > 5);
});

test('stops at a stop string, which it does not give out', async () => {
    const reply = await ask({ stop: ['box'] });
    assert.equal(reply.choices[0].message.content, 'The code of the red ');
    assert.equal(reply.choices[0].finish_reason, 'stop');
});

test('gives the same text for the same seed, and obeys max_tokens', async () => {
    // Nothing it knows how to answer, or it is too sure of its answer for a seed to matter.
    const unsure = { messages: [{ role: 'user', content: 'qzx' }], temperature: 2, ignore_eos: true };
    const seeded = (seed) => ask({ ...unsure, seed, max_completion_tokens: 24 });
    const [one, two, three] = [await seeded(7), await seeded(7), await seeded(8)];
    assert.equal(one.choices[0].message.content, two.choices[0].message.content);
    assert.notEqual(one.choices[0].message.content, three.choices[0].message.content);
    assert.ok(one.usage.completion_tokens <= 24);
});

test('gives logprobs that are probabilities', async () => {
    const reply = await ask({ logprobs: true, top_logprobs: 3 });
    const tokens = reply.choices[0].logprobs.content;
    assert.equal(tokens.length, reply.usage.completion_tokens);
    for (const token of tokens) {
        assert.ok(token.logprob <= 0);
        assert.equal(token.top_logprobs.length, 3);
        assert.ok(token.top_logprobs[0].logprob >= token.top_logprobs[2].logprob);
    }
});

test('answers in JSON of a schema, as a whole and as a stream', async () => {
    const properties = { sure: { type: 'boolean' }, code: { type: 'integer', minimum: 1000, maximum: 9999 } };
    const schema = { type: 'object', properties, required: ['sure', 'code'], additionalProperties: false };
    const response_format = { type: 'json_schema', json_schema: { name: 'code', strict: true, schema } };
    const reply = await client.chat.completions.parse({
        model: 'demo_model', messages: [{ role: 'user', content: fact }], temperature: 0, response_format });
    const { parsed, content } = reply.choices[0].message;
    assert.deepEqual(Object.keys(parsed), ['sure', 'code']);
    assert.equal(typeof parsed.sure, 'boolean');
    assert.ok(parsed.code >= 1000 && parsed.code <= 9999);
    let text = '';
    for await (const chunk of await ask({ response_format, stream: true })) text += chunk.choices[0]?.delta?.content ?? '';
    assert.equal(text, content);
    await assert.rejects(ask({ response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { multipleOf: 2 } } } }), (error) => {
        assert.equal(error.status, 400);
        assert.equal(error.param, 'response_format.json_schema.schema');
        return true;
    });
});

test('answers in what zod describes', async () => {
    const entry = z.object({ k: z.string().regex(/^[a-z]{1,8}$/), v: z.union([z.number(), z.boolean()]) });
    const person = z.object({
        name: z.string().max(20), email: z.string().email(), born: z.string().datetime().nullable(),
        age: z.number().int().min(0).max(150), kind: z.enum(['a', 'b']), entries: z.array(entry).min(1).max(2),
        pair: z.tuple([z.literal('x'), z.boolean()]), more: z.literal('x').optional().nullable(),
    });
    const reply = await client.chat.completions.parse({
        model: 'demo_model', messages: [{ role: 'user', content: fact }], temperature: 0,
        response_format: zodResponseFormat(person, 'person') });
    assert.ok(person.safeParse(reply.choices[0].message.parsed).success);
});

test('answers twice for n=2', async () => {
    const unsure = { messages: [{ role: 'user', content: 'qzx' }], temperature: 2, ignore_eos: true };
    const reply = await ask({ ...unsure, n: 2, seed: 3, max_tokens: 20 });
    assert.deepEqual(reply.choices.map((choice) => choice.index), [0, 1]);
    assert.notEqual(reply.choices[0].message.content, reply.choices[1].message.content);
});

test('plain completions', async () => {
    const reply = await client.completions.create({ model: 'demo_model', prompt: 'Hello', max_tokens: 5, temperature: 0 });
    assert.equal(reply.object, 'text_completion');
    assert.ok(reply.usage.completion_tokens <= 5);
});

test('an aborted stream ends its turn', async () => {
    const before = await turns(base);
    const stream = await ask({ stream: true, max_tokens: 3000, ignore_eos: true });
    for await (const chunk of stream) {
        if (chunk.choices[0].delta.content) break;  // leaving the loop aborts
    }
    await endsTurn(base, before);
});

test('a conversation is kept by the server', async () => {
    const say = (content) =>
        client.chat.completions.create({
            model: 'demo_model', temperature: 0, conversation: 'c1', messages: [{ role: 'user', content }],
        });
    await say('The code of the red box is 4817.');
    const reply = await say('What is the code of the red box?');
    assert.equal(reply.choices[0].message.content, answer);
    assert.ok(reply.usage.prompt_tokens_details.cached_tokens > 10);
});

test('refuses a wrong key with 401', async () => {
    const stranger = new OpenAI({ apiKey: 'wrong-key-0123456789', baseURL: base + 'v1', maxRetries: 0 });
    await assert.rejects(stranger.models.list(), (error) => error.status === 401 && error instanceof OpenAI.AuthenticationError);
});

test('refuses a bad parameter with 400 and its name', async () => {
    const bad = [['temperature', 3], ['top_p', 0], ['n', 0], ['max_tokens', -1], ['logit_bias', { 99999999: 1 }],
        ['presence_penalty', 9], ['tools', [{ type: 'function', function: { name: 'f' } }]], ['no_such_field', 1]];
    for (const [name, value] of bad) {
        await assert.rejects(ask({ [name]: value }), (error) => error.status === 400 && error.param?.startsWith(name), name);
    }
});

test('calls tools with arguments of a zod schema, goes on behind their results, and says where there are none', async () => {
    const { zodFunction } = require('openai/helpers/zod');
    const model = callingModel();
    const calling = await serve('--model', model.folder, '--set', 'server.served_model_names=[demo_model]');
    const asking = new OpenAI({ apiKey: key, baseURL: calling.base + 'v1', maxRetries: 0 });
    let tools;
    try {
        const parameters = z.object({ city: z.enum(['Oslo', 'Rome']), days: z.number().int().min(1).max(9) });
        tools = [zodFunction({ name: 'weather', parameters }), zodFunction({ name: 'clock', parameters: z.object({}) })];
        const messages = [{ role: 'user', content: fact }];
        const common = { model: 'demo_model', messages, temperature: 0, tools };
        const reply = await asking.chat.completions.parse({
            ...common, tool_choice: { type: 'function', function: { name: 'weather' } } });
        assert.equal(reply.choices[0].finish_reason, 'tool_calls');
        const { tool_calls: [call], content } = reply.choices[0].message;
        assert.equal(content, null);
        assert.ok(['Oslo', 'Rome'].includes(call.function.parsed_arguments.city));
        const stream = asking.chat.completions.stream({ ...common, tool_choice: 'required', parallel_tool_calls: false });
        let events = 0;
        stream.on('tool_calls.function.arguments.delta', () => ++events);
        const final = await stream.finalChatCompletion();
        assert.equal(final.choices[0].message.tool_calls.length, 1);
        assert.equal(final.choices[0].finish_reason, 'tool_calls');
        assert.ok(events > 0);
        const last = await asking.chat.completions.create({
            ...common, tool_choice: 'auto',
            messages: [...messages, reply.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'wet' }] });
        assert.ok(last.choices[0].message.content.length > 0);
    } finally {
        await calling.stop();
        model.remove();
    }
    await assert.rejects(ask({ tools }), (error) => error.status === 400 && error.param === 'tools');
});

test('responses: a text, a stream, chains, tools and zod, as chats do', async () => {
    const { zodTextFormat } = require('openai/helpers/zod');
    const model = callingModel();
    const calling = await serve('--model', model.folder, '--set', 'server.served_model_names=[demo_model]');
    try {
        const asking = new OpenAI({ apiKey: key, baseURL: calling.base + 'v1', maxRetries: 0 });
        const common = { model: 'demo_model', temperature: 0 };
        const first = await asking.responses.create({ ...common, input: fact });
        assert.equal(first.output_text, answer);
        const stream = asking.responses.stream({
            ...common, input: 'What is the code of the red box?', previous_response_id: first.id });
        let text = '';
        stream.on('response.output_text.delta', (event) => { text += event.delta; });
        const second = await stream.finalResponse();
        assert.equal(text, answer);
        assert.equal(second.output_text, answer);
        assert.ok(second.usage.input_tokens_details.cached_tokens > first.usage.input_tokens);
        const parameters = { type: 'object', properties: { zone: { enum: ['CET', 'UTC'] } }, required: ['zone'],
                             additionalProperties: false };
        const tools = [{ type: 'function', name: 'clock', parameters, strict: true }];
        const called = await asking.responses.parse({ ...common, input: 'Time?', tools, tool_choice: 'required', parallel_tool_calls: false });
        const call = called.output.find((item) => item.type === 'function_call');
        assert.ok(['CET', 'UTC'].includes(JSON.parse(call.arguments).zone));
        const output = { type: 'function_call_output', call_id: call.call_id, output: 'noon' };
        for (const more of [{ previous_response_id: called.id, input: [output] },
                            { store: false, input: [{ role: 'user', content: 'Time?' }, ...called.output, output] }])
            assert.ok((await asking.responses.create({ ...common, tools, ...more })).output_text.length > 0);
        const shape = z.object({ sure: z.boolean(), code: z.number().int().min(1000).max(9999) });
        const parsed = await asking.responses.parse({ ...common, input: fact, text: { format: zodTextFormat(shape, 'c') } });
        assert.equal(typeof parsed.output_parsed.sure, 'boolean');
        await asking.responses.delete(first.id);
        await assert.rejects(asking.responses.create({ ...common, input: 'x', previous_response_id: first.id }),
                             (error) => error.status === 404 && error.code === 'previous_response_not_found');
    } finally {
        await calling.stop();
        model.remove();
    }
});
