// A proxy before the server under test. It passes everything on, but only one event of an answer every `pace.ms`, so
// that an answer can be seen growing and be stopped however fast the server is. When the browser leaves, so does it.

import { createServer, request as request_of } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

async function pass_events(answer, response, pace, events_seen) {
    let pending = '';
    for await (const part of answer.setEncoding('utf8')) {
        const events = (pending + part).split(/(?<=\r?\n\r?\n)/);
        pending = /\n\r?\n$/.test(events.at(-1)) ? '' : events.pop();
        for (const event of events) {
            if (response.destroyed) return;
            events_seen.push(event);
            response.write(event);
            await pause(pace.ms);
        }
    }
    response.end(pending);
}

/** Listens on a free port; resolves to {url, pace, events, close}. `events` are those of all answers, as they came. */
export async function start_paced_proxy(base_url, pace_ms) {
    const target = new URL(base_url);
    const pace = { ms: pace_ms };
    const events = [];
    const server = createServer((request, response) => {
        const { method, headers, url } = request;
        const onward = request_of(
            { host: target.hostname, port: target.port || 80, path: url, method, headers },
            (answer) => {
                response.writeHead(answer.statusCode, answer.headers);
                const is_stream = (answer.headers['content-type'] ?? '').startsWith('text/event-stream');
                if (!is_stream) return answer.pipe(response);
                return pass_events(answer, response, pace, events).catch(() => response.destroy());
            },
        );
        onward.on('error', () => response.destroy());
        response.on('close', () => onward.destroy());
        request.pipe(onward);
    });
    await new Promise((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
    });
    const close = () => {
        server.close();
        server.closeAllConnections();
    };
    return { url: `http://127.0.0.1:${server.address().port}`, pace, events, close };
}
