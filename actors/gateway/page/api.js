// The HTTP surface of `rondo serve`, and nothing about how it is shown.

import { tab_storage } from './browser_storage.js';
import { sentence_of, status_of } from './errors.js';

const key_name = 'rondo-api-key';
const event_characters_max = 8 * 1024 * 1024;

/**
 * What went wrong: `message` as a sentence for the reader, `detail` in the server's words. `status` is the HTTP status, 0
 * when there was no answer; `code` is the server's name for it.
 */
export class ApiError extends Error {
    constructor({ status = 0, code = '', message = '', retry_after_s = 0 }) {
        super(sentence_of({ status, code, message, retry_after_s }));
        this.status = status;
        this.code = code;
        this.detail = message;
    }

    /** The conversation is not there: the server was restarted, or had to make room. */
    get is_forgotten() {
        return this.status === 404 && this.code === 'not_found';
    }
}

/** The key lives as long as the tab: it is kept in sessionStorage only. */
export function set_api_key(key) {
    if (key) tab_storage().setItem(key_name, key);
    else tab_storage().removeItem(key_name);
}

export function has_api_key() {
    return tab_storage().getItem(key_name) !== null;
}

async function error_of(response) {
    let told = {};
    try {
        told = (await response.json()).error ?? {};
    } catch {
        // The body is not JSON, so the status has to speak.
    }
    const { message = `It answered with status ${response.status}.`, code } = told;
    const retry_after_s = Number(response.headers.get('Retry-After')) || 0;
    return new ApiError({ status: response.status, code: code ?? '', message, retry_after_s });
}

async function request(path, { method = 'GET', body, signal } = {}) {
    const headers = {};
    const key = tab_storage().getItem(key_name);
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let response;
    try {
        response = await fetch(path, {
            method,
            headers,
            signal,
            body: body && JSON.stringify(body),
            cache: 'no-store',
        });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError({});
    }
    if (!response.ok) throw await error_of(response);
    return response;
}

async function request_json(path, options) {
    const response = await request(path, options);
    try {
        return await response.json();
    } catch {
        throw new ApiError({ status: 500, message: 'Its answer was not JSON.' });
    }
}

const session_path = (id) => `/v1/sessions/${encodeURIComponent(id)}`;

export const list_models = async () => (await request_json('/v1/models')).data ?? [];
export const read_store = () => request_json('/v1/store');
/** A part of the list, the newest first; `after` is the last id of the part before it. */
export const list_sessions = async (after) =>
    request_json(`/v1/sessions?limit=100${after ? `&after=${encodeURIComponent(after)}` : ''}`);
export const read_session = (id, signal) => request_json(session_path(id), { signal });
export const create_session = (system) =>
    request_json('/v1/sessions', { method: 'POST', body: system ? { system } : {} });
export const rename_session = (id, title) => request(session_path(id), { method: 'POST', body: { title } });
export const rewind_session = (id, round, signal) =>
    request(`${session_path(id)}/rewind`, { method: 'POST', body: { round }, signal });
export const fork_session = (id) => request_json(`${session_path(id)}/fork`, { method: 'POST', body: {} });
export const delete_session = (id) => request(session_path(id), { method: 'DELETE' });

/** The data of each server-sent event. Comments and other fields are passed over. */
async function* events_of(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let pending = '';
    let data = [];
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        pending += value;
        if (pending.length > event_characters_max) throw new ApiError({ status: 500, message: 'An event has no end.' });
        const lines = pending.split('\n');
        pending = lines.pop();
        for (const line of lines.map((one) => one.replace(/\r$/, ''))) {
            if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
            if (line !== '' || data.length === 0) continue;
            yield data.join('\n');
            data = [];
        }
    }
}

/** The chunks of a streamed completion. Aborting the signal cancels the turn; a stream that breaks off is an error. */
export async function* stream_chat(body, signal) {
    const response = await request('/v1/chat/completions', {
        method: 'POST',
        body: { ...body, stream: true, stream_options: { include_usage: true } },
        signal,
    });
    try {
        for await (const data of events_of(response.body)) {
            if (data === '[DONE]') return;
            const chunk = JSON.parse(data);
            if (chunk.error) throw new ApiError({ status: status_of(chunk.error.code), ...chunk.error });
            yield chunk;
        }
    } catch (error) {
        if (signal.aborted || error instanceof ApiError) throw error;
    }
    throw new ApiError({ code: 'lost' });
}
