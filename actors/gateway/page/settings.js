// What a person may set, and the dialogs. Settings stay in this browser; an empty field is the server's choice.

import { browser_storage } from './browser_storage.js';
import { has_api_key, set_api_key } from './api.js';
import { element } from './dom.js';

const storage_name = 'rondo-settings';
const numbers = ['temperature', 'top_p', 'max_tokens', 'seed', 'budget_tokens'];

function stored() {
    try {
        return JSON.parse(browser_storage().getItem(storage_name)) ?? {};
    } catch {
        return {};
    }
}

const number_or_nothing = (text) => (text.trim() === '' ? undefined : Number(text));

export class Settings {
    constructor(dialog) {
        const { system, method, keeps, ...others } = stored();
        for (const name of numbers) this[name] = typeof others[name] === 'number' ? others[name] : undefined;
        this.system = typeof system === 'string' ? system : '';
        this.method = typeof method === 'string' ? method : undefined;
        this.keeps = keeps !== false;
        this.dialog = dialog;
        this.form = dialog.querySelector('form');
        const { method: choice } = this.form.elements;
        choice.addEventListener('change', () => this.#refresh_budget());
    }

    /** The methods a turn may ask for, the server's own first. One that is not served any more is not asked for. */
    offer(methods) {
        if (!methods.includes(this.method)) this.method = undefined;
        const { method } = this.form.elements;
        const options = methods.map((name, at) =>
            element('option', { value: name }, at === 0 ? `${name} (the server’s own)` : name),
        );
        method.replaceChildren(...options);
        this.form.querySelector('#attention-fields').hidden = methods.length < 2;
    }

    #refresh_budget() {
        const { method, budget_tokens } = this.form.elements;
        budget_tokens.disabled = method.value === 'dense' || method.value === '';
    }

    /** Resolves when the dialog is closed; what was saved holds from the next message on. */
    async edit() {
        const fields = this.form.elements;
        for (const name of numbers) fields[name].value = this[name] ?? '';
        fields.system.value = this.system;
        fields.method.value = this.method ?? fields.method.options[0]?.value ?? '';
        fields.keeps.checked = this.keeps;
        this.#refresh_budget();
        if (await answer_of(this.dialog)) this.#take();
    }

    #take() {
        const fields = this.form.elements;
        for (const name of numbers) this[name] = number_or_nothing(fields[name].value);
        this.system = fields.system.value.trim();
        this.keeps = fields.keeps.checked;
        this.choose_method(fields.method.value);
    }

    choose_method(name) {
        const is_own = name === this.form.elements.method.options[0]?.value;
        this.method = name && (!is_own || (this.budget_tokens && name !== 'dense')) ? name : undefined;
        const { system, method, keeps } = this;
        const all = Object.fromEntries(numbers.map((one) => [one, this[one]]));
        browser_storage().setItem(storage_name, JSON.stringify({ ...all, system, method, keeps }));
    }
}

/** Opens a dialog; resolves to whether its main button closed it. Escape would leave the value of last time. */
export function answer_of(dialog) {
    dialog.returnValue = '';
    dialog.querySelector('[data-cancel]').onclick = () => dialog.close('');
    if (!dialog.open) dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener('close', () => resolve(dialog.returnValue === 'save'), { once: true });
    });
}

/** Asks for the API key; resolves to whether one was given. */
export async function ask_api_key(dialog) {
    const { key } = dialog.querySelector('form').elements;
    key.value = '';
    dialog.querySelector('#key-refused').hidden = !has_api_key();
    const is_given = (await answer_of(dialog)) && key.value.trim() !== '';
    if (is_given) set_api_key(key.value.trim());
    key.value = '';
    return is_given;
}

/** Asks for another title; resolves to it, or to null. */
export async function ask_title(dialog, title) {
    const { title: field } = dialog.querySelector('form').elements;
    field.value = title;
    const answer = answer_of(dialog);
    field.select();
    const text = (await answer) ? field.value.trim() : '';
    return text === '' || text === title ? null : text;
}

/** Asks before something that cannot be taken back. */
export function confirm(dialog, question) {
    dialog.querySelector('p').textContent = question;
    return answer_of(dialog);
}
