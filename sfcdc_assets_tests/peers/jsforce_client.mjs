// What jsforce reads and writes in an org, as one JSON document on standard output. Settings come in the environment.
import jsforce from 'jsforce';

const env = process.env;
const soql = 'SELECT Id, Name, CreatedDate FROM Account ORDER BY Id';
const password = env.SALESFORCE_PASSWORD + env.SALESFORCE_SECURITY_TOKEN;
const result = {};

const connection = new jsforce.Connection({ loginUrl: env.SALESFORCE_INSTANCE_URL, version: '60.0', logLevel: 'FATAL' });
result.login = await connection.login(env.SALESFORCE_USERNAME, password);
result.identity = await connection.identity();

const app = { clientId: env.SALESFORCE_CLIENT_ID, clientSecret: env.SALESFORCE_CLIENT_SECRET };
const oauth2 = { ...app, loginUrl: env.SALESFORCE_INSTANCE_URL };
const byPassword = new jsforce.Connection({ oauth2, loginUrl: env.SALESFORCE_INSTANCE_URL });
result.oauth = await byPassword.login(env.SALESFORCE_USERNAME, password);
const refreshed = new jsforce.Connection({
    oauth2, instanceUrl: env.SALESFORCE_INSTANCE_URL, refreshToken: env.SALESFORCE_REFRESH_TOKEN, accessToken: 'expired',
});
result.refreshed = (await refreshed.query('SELECT COUNT() FROM Account')).totalSize;

result.rest = (await connection.query(soql, { autoFetch: true, maxFetch: 100000 })).records.map((each) => each.Id);
result.fields = (await connection.sobject('Account').describe()).fields.map((each) => each.name);
result.objects = (await connection.describeGlobal()).sobjects.length;
result.children = (
    await connection.query("SELECT Id, (SELECT Id, LastName FROM Contacts) FROM Account WHERE Name = 'With children'")
).records;

const account = connection.sobject('Account');
result.created = await account.create({ Name: 'by jsforce', External_Key__c: 'js-1' });
result.upserted = await account.upsert({ Name: 'by upsert', External_Key__c: 'js-1' }, 'External_Key__c');
result.many = await account.create([{ Name: 'm1' }, { Phone: 'no name' }]);
result.manyUpserted = await account.upsert(
    [{ Name: 'u1', External_Key__c: 'js-1' }, { Name: 'u2', External_Key__c: 'js-2' }], 'External_Key__c');
result.retrieved = await account.retrieve(result.created.id);
result.deleted = await account.destroy(result.many[0].id);

connection.bulk.pollInterval = 50;
connection.bulk.pollTimeout = 20000;
const stream = await connection.bulk.query(soql);
result.bulk1 = (await stream.toArray()).map((each) => each.Id);
result.bulk1Loaded = await connection.bulk.load('Contact', 'insert', [
    { LastName: 'b1', Title: 'x' }, { LastName: '', Title: 'no name' },
]);

connection.bulk2.pollInterval = 50;
connection.bulk2.pollTimeout = 20000;
result.bulk2 = (await (await connection.bulk2.query(soql)).toArray()).map((each) => each.Id);
const loaded = await connection.bulk2.loadAndWaitForResults({
    object: 'Contact', operation: 'insert', input: [{ LastName: 'b2', Title: 'x' }, { LastName: '', Title: 'no name' }],
});
result.bulk2Loaded = { good: loaded.successfulResults, bad: loaded.failedResults };
const channels = connection.tooling.sobject('PlatformEventChannel');
const made = await channels.create({ FullName: 'Js__chn', Metadata: { channelType: 'data', label: 'Js' } });
const members = connection.tooling.sobject('PlatformEventChannelMember');
await members.create({
    FullName: 'Js_chn_AccountChangeEvent', Metadata: { eventChannel: 'Js__chn', selectedEntity: 'AccountChangeEvent' },
});
const selected = `SELECT SelectedEntity FROM PlatformEventChannelMember WHERE EventChannel = '${made.id}'`;
result.selected = (await connection.tooling.query(selected)).records.map((each) => each.SelectedEntity);
result.channelFields = (await channels.describe()).fields.map((each) => each.name);
result.owners = (await connection.query('SELECT Id, Owner.Name, Owner.Profile.Name FROM Account LIMIT 20')).records;
result.organization = await connection.sobject('Organization').retrieve(result.login.organizationId);
result.recent = await connection.recent();
result.limits = (await connection.limits()).DailyApiRequests;
await connection.logout();
console.log(JSON.stringify(result));
