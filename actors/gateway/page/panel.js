// Where each turn's time and KV went, a row a turn, the newest first. Bars of a kind share a scale, so that rows compare.

import { element } from './dom.js';

const time_stages = [
    ['queued', 'Queued', 'queued_ms'],
    ['restore', 'Restore', 'restore_ms'],
    ['prefill', 'Prefill', 'prefill_ms'],
    ['decode', 'Decode', 'decode_ms'],
];
const kv_sources = [
    ['cached', 'Cached', 'cached_tokens'],
    ['restored', 'Restored', 'restored_tokens'],
    ['recomputed', 'Recomputed', 'recomputed_tokens'],
];

function format_ms(ms) {
    if (ms >= 1000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
    return `${ms < 10 && ms > 0 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

const format_speed = (speed) => speed.toFixed(speed < 10 ? 1 : 0);
const format_count = (count) => Math.round(count).toLocaleString('en');
const sum = (parts) => parts.reduce((total, part) => total + part.value, 0);

function median(values) {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    return sorted.length === 0 ? null : sorted[Math.floor((sorted.length - 1) / 2)];
}

/** The server's stages; of a turn that was stopped or failed on its way, the two spans that the page itself saw. */
function time_parts(turn) {
    if (turn.timings) return time_stages.map(([kind, label, key]) => ({ kind, label, value: turn.timings[key] ?? 0 }));
    if (turn.first_at === null || turn.is_live) return [];
    return [
        { kind: 'queued', label: 'Until the first word', value: turn.first_at - turn.sent_at },
        { kind: 'decode', label: 'Answering', value: turn.ended_at - turn.first_at },
    ];
}

function kv_parts(turn) {
    const details = turn.usage?.prompt_tokens_details;
    return details ? kv_sources.map(([kind, label, key]) => ({ kind, label, value: details[key] ?? 0 })) : [];
}

function first_token_ms(turn) {
    return turn.timings?.first_token_ms ?? (turn.first_at === null ? null : turn.first_at - turn.sent_at);
}

/** The first token comes out of the prefill, so decoding made the others. */
function tokens_per_second(turn) {
    const made = (turn.usage?.completion_tokens ?? 0) - 1;
    return turn.timings?.decode_ms > 0 && made > 0 ? (made * 1000) / turn.timings.decode_ms : null;
}

/** Tokens whose keys and values did not have to be computed, of all prompt tokens of some turns. */
function reused_share(turns) {
    const parts = turns.flatMap(kv_parts);
    const all = sum(parts);
    return all === 0 ? null : 1 - sum(parts.filter((part) => part.kind === 'recomputed')) / all;
}

const percent = (share) => `${Math.floor(share * 100)}%`;

function bar_of(name, parts, scale, format) {
    const shown = parts.filter((part) => part.value > 0);
    const label = `${name}: ${parts.map((part) => `${part.label.toLowerCase()} ${format(part.value)}`).join(', ')}`;
    const bar = element(
        'div',
        { class: 'bar' },
        ...shown.map((part) => {
            const segment = element('span', {
                class: `segment ${part.kind}`,
                title: `${part.label} ${format(part.value)}`,
            });
            segment.style.flexGrow = part.value;
            return segment;
        }),
    );
    bar.style.width = `${scale > 0 ? Math.max((100 * sum(parts)) / scale, 1) : 0}%`;
    return element('div', { class: 'track', role: 'img', 'aria-label': label }, bar);
}

function time_note(turn) {
    const first = first_token_ms(turn);
    const speed = tokens_per_second(turn);
    const notes = [
        first !== null && `first token ${format_ms(first)}`,
        speed !== null && `${format_speed(speed)} tokens/s`,
    ];
    return notes.filter(Boolean).join(' · ');
}

function kv_note(turn) {
    return `${format_count(sum(kv_parts(turn)))} prompt tokens · ${percent(reused_share([turn]) ?? 0)} reused`;
}

function table_of(parts, format) {
    const rows = parts.map(({ kind, label, value }) => {
        const name = element('th', { scope: 'row' }, element('span', { class: `swatch ${kind}` }), label);
        return element('tr', {}, name, element('td', {}, format(value)));
    });
    return element('tbody', {}, ...rows);
}

function exact_figures(turn) {
    const counts = kv_parts(turn);
    if (turn.usage) counts.push({ kind: 'none', label: 'Answer', value: turn.usage.completion_tokens });
    if (turn.timings?.preemptions) counts.push({ kind: 'none', label: 'Put away', value: turn.timings.preemptions });
    return element('table', {}, table_of(time_parts(turn), format_ms), table_of(counts, format_count));
}

const attention_figures = [
    ['Prompt: computed', 'prompt_density'],
    ['Prompt: attention held', 'prompt_mass'],
    ['Answer: keys attended to', 'answer_density'],
    ['Answer: attention held', 'answer_mass'],
];

/** How a turn attended, where that was not to everything. */
function attention_table(turn) {
    const how = turn.attention;
    if (!how || how.method === 'dense') return null;
    const shares = attention_figures
        .filter(([, key]) => how[key] !== undefined)
        .map(([label, key]) => ({ kind: 'none', label, value: how[key] }));
    const counts = [
        { kind: 'none', label: 'Choices of keys', value: how.selections },
        { kind: 'none', label: 'Steps until they serve', value: how.lag_steps },
    ];
    if (how.rounds) {
        counts.push({ kind: 'none', label: 'Earlier rounds', value: how.rounds.earlier });
        counts.push({ kind: 'none', label: 'Of them chosen', value: how.rounds.chosen });
        shares.push({ kind: 'none', label: 'Rounds: attention held', value: how.rounds.mass });
    }
    if (how.waited) counts.push({ kind: 'none', label: 'Waited for', value: how.waited });
    if (how.given_up) counts.push({ kind: 'none', label: 'Given up for want of memory', value: how.given_up });
    return element(
        'table',
        { 'data-testid': 'attention' },
        element('caption', {}, `Attention: ${how.method}`),
        table_of(shares, (share) => `${(100 * share).toFixed(1)}%`),
        table_of(counts, format_count),
    );
}

function state_of(turn) {
    if (turn.state === 'waiting') return 'waiting';
    if (turn.state === 'answering') return 'answering';
    if (turn.state === 'failed') return 'failed';
    return turn.state === 'stopped' ? 'stopped' : format_ms(sum(time_parts(turn)));
}

export class Panel {
    /** go_to(turn) shows a turn among the messages. */
    constructor(root, go_to) {
        this.go_to = go_to;
        this.summary = root.querySelector('#panel-summary');
        this.rows = root.querySelector('#panel-turns');
        this.empty = root.querySelector('#panel-empty');
        this.legend = root.querySelector('#panel-legend');
        this.opened = new WeakSet();
        this.drawn_states = new WeakMap();
    }

    /** Draws a conversation's turns. Those of an earlier visit have no measurements. */
    draw(conversation) {
        const numbered = conversation.turns
            .map((turn, index) => ({ turn, number: index + 1 }))
            .filter(({ turn }) => turn.state !== 'stored');
        this.empty.hidden = numbered.length > 0;
        this.legend.hidden = numbered.length === 0;
        this.summary.hidden = numbered.length === 0;
        numbered.forEach(({ turn }) => this.drawn_states.set(turn, turn.state));
        this.#draw_summary(numbered.map(({ turn }) => turn));
        const time_scale = Math.max(0, ...numbered.map(({ turn }) => sum(time_parts(turn))));
        const kv_scale = Math.max(0, ...numbered.map(({ turn }) => sum(kv_parts(turn))));
        const focused = [...this.rows.children].findIndex((row) => row.contains(document.activeElement));
        this.rows.replaceChildren(
            ...numbered.reverse().map(({ turn, number }) => this.#row(turn, number, time_scale, kv_scale)),
        );
        if (focused >= 0) this.rows.children[focused]?.querySelector('summary').focus();
    }

    /** Draws anew when a turn's state changed: a growing answer changes nothing here. */
    update(conversation, turn) {
        if (this.drawn_states.get(turn) !== turn.state) this.draw(conversation);
    }

    #draw_summary(turns) {
        const speed = median(turns.map(tokens_per_second));
        const first = median(turns.map(first_token_ms));
        const reused = reused_share(turns);
        const figures = {
            reused: reused === null ? '–' : percent(reused),
            first: first === null ? '–' : format_ms(first),
            speed: speed === null ? '–' : format_speed(speed),
        };
        for (const [name, text] of Object.entries(figures))
            this.summary.querySelector(`[data-figure=${name}]`).textContent = text;
    }

    #row(turn, number, time_scale, kv_scale) {
        const times = time_parts(turn);
        const sources = kv_parts(turn);
        const head = element('span', { class: 'row-head' });
        head.append(element('span', {}, `Turn ${number}`));
        head.append(element('span', { class: 'row-total', 'data-state': turn.state }, state_of(turn)));
        const summary = element('summary', {}, head);
        if (times.length > 0) summary.append(bar_of('Time', times, time_scale, format_ms));
        summary.append(element('span', { class: 'row-note' }, time_note(turn)));
        if (sources.length > 0) {
            summary.append(bar_of('Prompt tokens', sources, kv_scale, format_count));
            summary.append(element('span', { class: 'row-note' }, kv_note(turn)));
        }
        const details = element('details', { open: this.opened.has(turn) }, summary, exact_figures(turn));
        const attention = attention_table(turn);
        if (attention) details.append(attention);
        details.addEventListener('toggle', () => this.#remember(turn, details.open));
        if (!turn.timings && !turn.is_live) {
            details.append(element('p', { class: 'quiet' }, 'As seen from this page: the server sent no figures.'));
        }
        const go_to = () => this.go_to(turn);
        details.append(element('button', { type: 'button', class: 'link', click: go_to }, 'Show the messages'));
        return element('li', { class: 'row', 'data-testid': 'panel-turn' }, details);
    }

    #remember(turn, is_open) {
        if (is_open) this.opened.add(turn);
        else this.opened.delete(turn);
    }
}
