// What the store has of whoever asks, and what came back from it. Nothing shows where the server has no store.

import { read_store } from './api.js';
import { element } from './dom.js';

const settles_after_ms = 400; // what a turn has computed is written behind its end
const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
const last_prompt_sources = [
    ['Last prompt: from the pool', 'cached_tokens'],
    ['Last prompt: from the disk', 'restored_tokens'],
    ['Last prompt: computed', 'recomputed_tokens'],
];

const format_count = (count) => Math.round(count).toLocaleString('en');

function format_bytes(bytes) {
    const power = bytes < 1024 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1);
    const value = bytes / 1024 ** power;
    return `${value.toFixed(power > 0 && value < 100 ? 1 : 0)} ${units[power]}`;
}

/** A share that is not nothing does not look like nothing, nor one that is not all like all. */
function format_share(part, whole) {
    const percent = (100 * part) / whole;
    if (percent > 0 && percent < 1) return 'below 1%';
    return `${Math.floor(percent)}%`;
}

/** A number of the server's; anything else is none. */
const number_of = (value) => (Number.isFinite(value) && value >= 0 ? value : 0);

function figures_of(store) {
    const asked = number_of(store.prompt_tokens_asked);
    const restored = number_of(store.prompt_tokens_restored);
    const in_host_memory = number_of(store.host_bytes);
    const on_the_disk = `${format_bytes(number_of(store.bytes))} of ${format_bytes(number_of(store.bytes_max))}`;
    const rows = [['On the disk', on_the_disk]];
    if (in_host_memory > 0) rows.push(['Of it in host memory', format_bytes(in_host_memory)]);
    rows.push(
        ['Conversations', format_count(number_of(store.conversations))],
        ['Tokens restored', format_count(restored)],
    );
    if (asked > 0) rows.push(['Of what memory lacked', format_share(restored, asked)]);
    return rows;
}

/** Where the keys of the newest prompt came from of which the server told. */
function last_prompt(conversation) {
    const details = conversation?.turns.findLast((turn) => turn.usage?.prompt_tokens_details)?.usage.prompt_tokens_details;
    if (!details) return [];
    return last_prompt_sources.map(([name, key]) => [name, format_count(number_of(details[key]))]);
}

export class StoreFigures {
    constructor(root) {
        this.root = root;
        this.bar = root.querySelector('.bar');
        this.track = root.querySelector('.track');
        this.rows = root.querySelector('tbody');
        this.store = null;
        this.conversation = null;
        this.timer = null;
    }

    /** Asks the server. One that has none, or cannot say, is not asked again behind turns. */
    async load() {
        try {
            this.store = await read_store();
        } catch {
            this.store = null;
        }
        this.#draw();
    }

    draw(conversation) {
        this.conversation = conversation;
        this.#draw();
    }

    /** A turn has ended or a conversation has gone: there is more in the store, or less. */
    load_soon() {
        if (!this.store?.enabled) return;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.load(), settles_after_ms);
    }

    #draw() {
        this.root.hidden = !this.store?.enabled;
        if (this.root.hidden) return;
        const rows = [...figures_of(this.store), ...last_prompt(this.conversation)];
        const used = Math.min(number_of(this.store.bytes) / Math.max(number_of(this.store.bytes_max), 1), 1);
        this.bar.style.width = `${100 * used}%`;
        this.track.setAttribute('aria-label', `Store: ${rows[0][1]}`);
        this.rows.replaceChildren(
            ...rows.map(([name, text]) =>
                element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, text)),
            ),
        );
    }
}
