// The browser's storage. Where it is blocked the page has one of its own, which lasts as long as the page.

class OwnStorage {
    #items = new Map();

    get length() {
        return this.#items.size;
    }
    key(at) {
        return [...this.#items.keys()][at] ?? null;
    }
    getItem(key) {
        return this.#items.get(key) ?? null;
    }
    setItem(key, text) {
        this.#items.set(key, text);
    }
    removeItem(key) {
        this.#items.delete(key);
    }
}

function storage_of(name) {
    try {
        return window[name] ?? new OwnStorage();
    } catch {
        return new OwnStorage(); // asking for it is an error already
    }
}

const storages = { sessionStorage: storage_of('sessionStorage'), localStorage: storage_of('localStorage') };

/** Lasts as long as the tab. */
export const tab_storage = () => storages.sessionStorage;
export const browser_storage = () => storages.localStorage;
