// A stand-in for `rondo serve` that answers with canned text, for working on the chat page without a model.
//   node tests/page/mock_server.mjs [PORT]       MOCK_KEY=k asks for that API key, MOCK_TOKEN_MS=20 sets the pace
//                                              MOCK_STORE=off is a server without a store
// Messages that begin with one of these are answered specially: /say (by what follows), /long, /refuse (status 429),
// /break (an error in the stream), /drop (the connection is lost).

import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const port = Number(process.argv[2] ?? 8080);
const api_key = process.env.MOCK_KEY ?? '';
const token_ms = Number(process.env.MOCK_TOKEN_MS ?? 20);
const folder_of = (path) => fileURLToPath(new URL(`../../${path}/`, import.meta.url));
const page_folder = folder_of('actors/gateway/page');
const libraries_folder = `${process.env.PAGE_LIBRARIES ?? folder_of('build/page')}/`;
const has_store = process.env.MOCK_STORE !== 'off';
const stored = { prompt_tokens_asked: 0, prompt_tokens_restored: 0, restore_seconds: 0 };
const body_bytes_max = 1 << 20;
const resident_max = 2;
const methods = ['dense', 'loopserve', 'snapkv'];
const content_types = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.txt': 'text/plain' };
const content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const sessions = new Map();
let resident = [];
let sessions_made = 0;

const answers = [
    `A **round** is one message and its answer. Rondo keeps the keys and values of every round apart, so it can

- drop a round or go back to it,
- load only the rounds that a question needs,
- share equal beginnings between conversations.

The last token of an answer has no keys yet; it opens the next round.`,
    `### How a turn runs

1. The *router* finds the conversation's actor.
2. What was put away is restored, layer by layer, while the first layers are already computing.
3. Only what is new is prefilled. Then tokens are decoded, one step of the batch at a time.

\`\`\`cpp
Result<KvLease> lease = pool.acquire(LayerGroup::lower, blocks);
if (!lease.ok()) return lease.error();   // the turn waits; nothing is half taken
\`\`\`

Set \`pipeline.prefill.chunk_tokens\` to bound how long others wait.`,
    'Yes. The conversation goes on where it was: only what is new has to be computed, however long we pause.',
];
const long_answer = Array.from(
    { length: 40 },
    (_, index) =>
        `Paragraph ${index + 1} of a long answer says again, ` +
        'in slightly more words than it needs, that the end is not yet near.',
).join('\n\n');

class Refusal extends Error {
    constructor(status, message, code = { 404: 'not_found', 429: 'overloaded' }[status] ?? 'invalid_value') {
        super(message);
        this.status = status;
        this.code = code;
    }
}

const count_tokens = (text) => text.split(/(?=\s)/).length;

function view_of(session) {
    const { id, tokens, rounds, system = '' } = session;
    return { id, title: title_of(session), system, tokens, rounds: rounds.map((round, index) => ({ index, ...round })) };
}

const title_of = ({ title, rounds }) => title ?? (rounds[0]?.user ?? '').trim().split('\n')[0].slice(0, 80);
const listed_view_of = (session) => {
    const { id, tokens, rounds } = session;
    return { id, title: title_of(session), tokens, round_count: rounds.length };
};

function create_session({ id, system }) {
    const session = { id: id ?? `c-${++sessions_made}`, tokens: system ? count_tokens(system) : 0, rounds: [], system };
    if (sessions.has(session.id)) throw new Refusal(409, `conversation '${session.id}' exists already`);
    sessions.set(session.id, session);
    return session;
}

function find_session(id) {
    if (!sessions.has(id)) throw new Refusal(404, `conversation '${id}' is not known`);
    return sessions.get(id);
}

function rewind(session, round) {
    if (!Number.isInteger(round) || round < 0) throw new Refusal(400, `round: ${round} is not a round's index`);
    for (const dropped of session.rounds.splice(round)) session.tokens -= dropped.tokens;
}

function fork(session, { id }) {
    const copy = create_session({ id, system: session.system });
    copy.rounds = session.rounds.map((round) => ({ ...round }));
    copy.tokens = session.tokens;
    return copy;
}

/** The latest conversations are on the device; the history of another is mostly restored, its beginning computed again. */
function sources_of(session, new_tokens) {
    const history = session.tokens;
    const is_resident = resident.includes(session);
    resident = [session, ...resident.filter((other) => other !== session)].slice(0, resident_max);
    const restored_tokens = is_resident ? 0 : Math.round(history * 0.85);
    const cached_tokens = is_resident ? history : 0;
    stored.prompt_tokens_asked += history + new_tokens - cached_tokens;
    stored.prompt_tokens_restored += restored_tokens;
    return {
        cached_tokens,
        restored_tokens,
        recomputed_tokens: history - cached_tokens - restored_tokens + new_tokens,
    };
}

/** What there is on the disk grows with every token that a conversation has. */
function store_view() {
    if (!has_store) return { object: 'store', enabled: false };
    const tokens = [...sessions.values()].reduce((sum, session) => sum + session.tokens, 0);
    return {
        object: 'store',
        enabled: true,
        encrypted: false,
        bytes: tokens * 12288,
        bytes_max: 2 ** 30,
        records: [...sessions.values()].reduce((sum, session) => sum + session.rounds.length, 0),
        conversations: sessions.size,
        ...stored,
    };
}

/** Dense attention has no figures; a method that chooses keys only has none of the prompt. */
function attention_of(method, answer_tokens) {
    if (method === 'dense') return { method };
    const figures = { answer_density: 0.4375, answer_mass: 0.9716 };
    if (method === 'snapkv') return { method, ...figures, selections: 1, lag_steps: 0 };
    const selections = Math.ceil(answer_tokens / 16);
    return { method, prompt_density: 0.2864, prompt_mass: 0.9581, ...figures, selections, lag_steps: 1 };
}

function answer_to(session, text) {
    if (text.startsWith('/say ')) return text.slice(5);
    return text.startsWith('/long') ? long_answer : answers[session.rounds.length % answers.length];
}

/** A conversation that is empty begins with what its client brings along. */
function take_history(session, messages) {
    if (session.rounds.length > 0) return;
    if (messages[0]?.role === 'system') session.system = messages[0].content;
    const said = messages.filter((one) => one.role !== 'system').slice(0, -1);
    for (let at = 0; at + 1 < said.length; at += 2) {
        const tokens = count_tokens(said[at].content) + count_tokens(said[at + 1].content);
        session.rounds.push({ tokens, user: said[at].content, assistant: said[at + 1].content });
        session.tokens += tokens;
    }
}

async function chat(request, response, body) {
    const text = body.messages?.at(-1)?.content ?? '';
    const session = body.continue
        ? find_session(body.conversation)
        : (sessions.get(body.conversation) ?? create_session({ id: body.conversation }));
    take_history(session, body.messages);
    const method = body.method?.name ?? body.method ?? methods[0];
    if (!methods.includes(method)) throw new Refusal(400, `method is "${method}", must be one of ${methods}`);
    if (text.startsWith('/refuse')) throw new Refusal(429, 'too many requests are waiting (256); try again in 2 s');
    const send = (data) => response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    const chunk = (delta, more = {}) =>
        send({
            id: 'chat-1',
            object: 'chat.completion.chunk',
            model: 'mock',
            ...more,
            choices: [{ index: 0, delta, finish_reason: more.finish_reason ?? null }],
        });
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    const started = performance.now();
    const sources = sources_of(session, count_tokens(text) + 4);
    const timings = {
        queued_ms: 3 + 9 * Math.random(),
        restore_ms: sources.restored_tokens * 0.4,
        prefill_ms: 20 + sources.recomputed_tokens * 3,
        decode_ms: 0,
        first_token_ms: 0,
        preemptions: 0,
    };
    await pause(timings.queued_ms + timings.restore_ms + timings.prefill_ms);
    timings.first_token_ms = performance.now() - started;
    const pieces = answer_to(session, text)
        .split(/(?=\s)/)
        .slice(0, body.max_tokens ?? Infinity);
    let answer = '';
    chunk({ role: 'assistant', content: '' });
    for (const [index, piece] of pieces.entries()) {
        if (response.destroyed) break;
        if (index === 12 && text.startsWith('/drop')) return response.destroy();
        if (index === 12 && text.startsWith('/break'))
            return response.end('data: {"error":{"message":"the decode actor was restarted; ask again"}}\n\n');
        answer += piece;
        chunk({ content: piece });
        await pause(token_ms);
    }
    timings.decode_ms = performance.now() - started - timings.first_token_ms;
    const completion_tokens = count_tokens(answer);
    const prompt_tokens = sources.cached_tokens + sources.restored_tokens + sources.recomputed_tokens;
    const tokens = prompt_tokens - session.tokens + completion_tokens;
    const attention = attention_of(method, completion_tokens);
    const finish_reason = response.destroyed ? null : pieces.length === body.max_tokens ? 'length' : 'stop';
    const usage = { prompt_tokens, completion_tokens, prompt_tokens_details: sources };
    session.rounds.push({ tokens, user: text, assistant: answer, finish_reason, usage, timings, attention });
    session.tokens += tokens;
    chunk({}, { finish_reason, timings, attention });
    send({
        id: 'chat-1',
        object: 'chat.completion.chunk',
        choices: [],
        usage,
    });
    send('[DONE]');
    response.end();
}

async function body_of(request) {
    let text = '';
    for await (const part of request) {
        text += part;
        if (text.length > body_bytes_max) throw new Refusal(413, 'the body is over 1 MiB');
    }
    return text === '' ? {} : JSON.parse(text);
}

function send_json(response, value, status = 200) {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value));
}

function send_page(response, name) {
    const type = content_types[extname(name)];
    if (!type || basename(name) !== name) throw new Refusal(404, `there is no page '${name}'`);
    const folder = existsSync(page_folder + name) ? page_folder : libraries_folder;
    const file = createReadStream(folder + name);
    file.on('error', () => send_json(response, { error: { message: `there is no page '${name}'` } }, 404));
    file.on('open', () => {
        response.writeHead(200, {
            'Content-Type': `${type}; charset=utf-8`,
            'Content-Security-Policy': content_policy,
            'Cache-Control': 'no-store',
        });
        file.pipe(response);
    });
}

/** The newest first, in pages of two so that whoever lists has to follow them. */
function page_of(wanted) {
    const all = [...sessions.values()].map(listed_view_of).reverse();
    const from = wanted.has('after') ? all.findIndex((one) => one.id === wanted.get('after')) + 1 : 0;
    const data = all.slice(from, from + 2);
    return { data, last_id: data.at(-1)?.id ?? null, has_more: from + 2 < all.length };
}

async function answer(request, response) {
    const path = new URL(request.url, 'http://mock').pathname;
    if (path === '/') return send_page(response, 'index.html');
    if (path.startsWith('/page/')) return send_page(response, path.slice('/page/'.length));
    if (api_key && request.headers.authorization !== `Bearer ${api_key}`)
        throw new Refusal(401, 'the API key is missing or wrong');
    const body = request.method === 'POST' ? await body_of(request) : {};
    const [, encoded_id, action = ''] = /^\/v1\/sessions\/([^/]+)(?:\/(\w+))?$/.exec(path) ?? [];
    const route = `${request.method} ${encoded_id ? `session ${action}` : path}`.trim();
    const session = encoded_id && find_session(decodeURIComponent(encoded_id));
    if (route === 'GET /v1/models')
        return send_json(response, { object: 'list', data: [{ id: 'mock', object: 'model', methods }] });
    if (route === 'GET /v1/store') return send_json(response, store_view());
    if (route === 'GET /v1/sessions') return send_json(response, page_of(new URL(request.url, 'http://mock').searchParams));
    if (route === 'POST /v1/sessions') return send_json(response, view_of(create_session(body)));
    if (route === 'POST /v1/chat/completions') return chat(request, response, body);
    if (route === 'GET session') return send_json(response, view_of(session));
    if (route === 'POST session fork') return send_json(response, view_of(fork(session, body)));
    if (route === 'POST session') session.title = body.title;
    else if (route === 'POST session rewind') rewind(session, body.round);
    else if (route === 'DELETE session') sessions.delete(session.id);
    else throw new Refusal(404, `there is no ${request.method} ${path}`);
    return send_json(response, request.method === 'DELETE' ? { id: session.id, deleted: true } : view_of(session));
}

createServer((request, response) => {
    answer(request, response).catch((error) => {
        if (response.headersSent) response.destroy();
        else send_json(response, { error: { message: error.message, code: error.code } }, error.status ?? 400);
    });
}).listen(port, '127.0.0.1', () => console.log(`mock of rondo serve on http://127.0.0.1:${port}/`));
