// What the page says of what went wrong: a sentence for a person, and the server's own words below it.

const sentences = {
    0: 'The server cannot be reached. Is it running?',
    401: 'This server answers only with an API key, and yours is missing or wrong.',
    403: 'The server does not answer a page at this address.',
    404: 'The server does not know this conversation any more.',
    413: 'The message is too large for this server.',
    429: 'The server is busy.',
    499: 'The answer was stopped on the server.',
    500: 'Something failed on the server. Trying again may help.',
    503: 'The server cannot answer now.',
    504: 'The answer took longer than this server allows.',
};

/** An error within a stream has no status of its own. */
const status_of_code = {
    ...{ cancelled: 499, context_length_exceeded: 400, invalid_value: 400, not_found: 404, out_of_memory: 503, out_of_range: 400, overloaded: 429 },
    ...{ shutting_down: 503, timeout: 504, unsupported: 400 },
};
export const status_of = (code) => status_of_code[code] ?? 500;

/** `retry_after_s` is when to try again; 0: the server did not say. */
export function sentence_of({ status, code, message, retry_after_s }) {
    if (code === 'lost') return 'The connection was lost before the answer ended.';
    if (code === 'shutting_down') return 'The server is shutting down. Try again when it is back.';
    if (code === 'model_not_found') return 'The server does not serve this model any more. Load the page again.';
    if (code === 'out_of_memory') return 'The server has no memory free for this conversation now.';
    if (code === 'context_length_exceeded')
        return 'The conversation does not fit into the model’s context. Edit an earlier message, or begin a new one.';
    if (status === 400) return 'The server does not accept this request.';
    const wait = Math.ceil(retry_after_s ?? 0);
    const again = wait > 0 ? ` Try again in ${wait} second${wait === 1 ? '' : 's'}.` : ' Try again in a moment.';
    return (sentences[status] ?? sentences[500]) + (status === 429 || status === 503 ? again : '');
}
