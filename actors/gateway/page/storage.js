// What this browser keeps of conversations, so that one goes on after its server has forgotten it. Where an API key is
// needed it lives as long as the tab, as the key does, and else until it is deleted or there is no room for it.

import { has_api_key } from './api.js';
import { browser_storage, tab_storage } from './browser_storage.js';

const prefix = 'rondo-kept:';
const conversation_characters_max = 512 * 1024;
const characters_max = 2 * 1024 * 1024;
const count_max = 100;

const area = () => (has_api_key() ? tab_storage() : browser_storage());
const keys_of = (storage) =>
    Array.from({ length: storage.length }, (_, at) => storage.key(at)).filter((key) => key.startsWith(prefix));

function parsed(text) {
    try {
        const kept = JSON.parse(text);
        return kept && Array.isArray(kept.turns) && typeof kept.id === 'string' ? kept : null;
    } catch {
        return null;
    }
}

/** All that is kept, the latest first. */
export function kept_conversations() {
    const storage = area();
    const all = keys_of(storage).map((key) => parsed(storage.getItem(key)));
    return all.filter(Boolean).sort((a, b) => (b.at ?? 0) - (a.at ?? 0));
}

export const kept_conversation = (id) => parsed(area().getItem(prefix + id));
export const forget_kept = (id) => area().removeItem(prefix + id);

/** Makes room: the oldest go, and those that nobody can read. */
function drop_for(storage, key, length) {
    const others = keys_of(storage).filter((one) => one !== key);
    const aged = others.map((one) => ({ one, text: storage.getItem(one) }));
    aged.sort((a, b) => (parsed(b.text)?.at ?? 0) - (parsed(a.text)?.at ?? 0));
    let left = characters_max - length;
    aged.forEach(({ one, text }, at) => {
        left -= text.length;
        if (left < 0 || at >= count_max - 1) storage.removeItem(one);
    });
}

/** Keeps one as it is now. One that is too large is not kept in parts: it could not go on where it was. */
export function keep(conversation) {
    const storage = area();
    const key = prefix + conversation.id;
    const text = JSON.stringify({ ...conversation, at: Date.now() });
    if (text.length > conversation_characters_max) return storage.removeItem(key);
    drop_for(storage, key, text.length);
    try {
        storage.setItem(key, text);
    } catch {
        storage.removeItem(key); // the browser gives less room than it should
    }
}

export const forget_all_kept = () =>
    [browser_storage(), tab_storage()].forEach((storage) => keys_of(storage).forEach((key) => storage.removeItem(key)));
